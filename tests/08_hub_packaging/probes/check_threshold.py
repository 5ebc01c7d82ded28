"""Puts the forward of FatreluAndMul into layers of a model's own, as kernelize does."""

import torch
from torch import nn

X = torch.tensor([[0.1, 0.4, 2.0, 2.0]])


def check_replaced_layers(forward):
    with_threshold, without, *others = define_layers(forward)
    assert with_threshold(0.3)(X).tolist() == \
        [[0.0, torch.tensor(0.4).item() * 2]], \
        "forward does not take the threshold of the layer that it was put into"
    small = torch.tensor([[1e-30, -1e-30, 1.0, 1.0]])
    assert without()(small).tolist() == [[small[0, 0].item(), 0.0]], \
        "forward does not take 0 where the layer has no threshold"
    assert torch.equal(without()(X), X[:, :2] * 2), \
        "forward does not take 0 where the layer has no threshold"
    for layer in (*(other() for other in others), with_threshold(0.3)):
        assert torch.equal(layer(X)[0, 0], torch.tensor(0.0)), \
            f"forward does not take the threshold of {type(layer).__name__}, which " \
            "is a layer's, whether its own or its class's"
    for threshold, want in ((-0.5, -0.4), (0.0, 0.0), (-0.3, 0.0)):
        got = with_threshold(threshold)(torch.tensor([[-0.4, 1.0]])).item()
        assert got == torch.tensor(want).item(), \
            f"with a threshold of {threshold} -0.4 becomes {got:.1f}, and should {want}"
    layer.threshold = 3.0
    assert layer(torch.tensor([[2.0, 1.0]])).item() == 0, \
        "forward keeps the threshold that the layer had in an earlier call"


def define_layers(forward_of_package):
    """Return classes with that forward. All but the second have a threshold."""
    class Fatrelu(nn.Module):
        forward = forward_of_package

        def __init__(self, threshold):
            super().__init__()
            self.threshold = threshold

    class LayerWithoutThreshold(nn.Module):
        forward = forward_of_package

    class OfTheClass(LayerWithoutThreshold):
        threshold = 0.3

    class OfAProperty(LayerWithoutThreshold):
        threshold = property(lambda self: 0.3)

    return Fatrelu, LayerWithoutThreshold, OfTheClass, OfAProperty


def check_own_threshold(layer):
    assert torch.equal(layer()(X), X[:, :2] * 2), \
        "FatreluAndMul() has another threshold than 0"
    assert torch.equal(layer(0.5)(X), torch.tensor([[0.0, 0.0]])), \
        "FatreluAndMul(0.5) has another threshold than 0.5"
