"""A project around kernels that exist (`project`): their sources are taken in
(`taking`), ported and registered (`registering`), and files of ours are written for
them (`writing`)."""
