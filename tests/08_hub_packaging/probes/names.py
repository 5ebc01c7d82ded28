"""The names that the package promises."""

FUNCTIONS = (
    "fatrelu_and_mul", "gelu", "gelu_and_mul", "gelu_fast", "gelu_new", "gelu_quick",
    "gelu_tanh", "gelu_tanh_and_mul", "mul_and_silu", "silu", "silu_and_mul",
    "silu_and_mul_with_clamp", "swigluoai_and_mul")
LAYERS = (
    "SiluAndMul", "MulAndSilu", "GeluAndMul", "GeluTanhAndMul", "FatreluAndMul",
    "Silu", "Gelu", "GeluTanh", "FastGELU", "NewGELU", "QuickGELU")
