"""Which of a repository's folders the Hub's loader takes here, and why not."""

import platform

from kernels.variants import parse_variant, resolve_variants

machine = platform.machine()
other = "aarch64" if machine == "x86_64" else "x86_64"
names = [
    f"torch26-cxx98-cpu-{machine}-linux",
    f"torch213-cpu-{machine}-linux",
    f"torch-stable-abi210-cpu-{machine}-linux",
    f"torch-stable-abi299-cpu-{machine}-linux",
    f"torch-stable-abi210-cu130-{machine}-linux",
    f"torch-stable-abi210-cpu-{other}-linux",
    "torch-cpu"]
taken, decisions = resolve_variants([parse_variant(n) for n in names], "cpu")
for place, variant in enumerate(taken, 1):
    print(f"{variant.variant_str}: choice {place}")
for decision in decisions:
    if decision.variant not in taken:
        print(f"{decision.variant.variant_str}:\n    {decision.reason}")
