"""The commands of torch-stable-abi, a module each."""
