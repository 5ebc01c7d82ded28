"""Tools for extensions of PyTorch's stable ABI, whoever wrote them."""
