"""port: what each line of an extension of the unstable API becomes."""
