"""Lets package.py write the ids of variants, with a commit after each."""

import package

from repository import append, change_settings, git


def write_ids(*backends):
    """Yield the id in the header of each backend."""
    for backend in backends:
        header = package.SOURCE / f"{backend}.h"
        package.write_id(backend, header)
        yield header.read_text().split()[-1]
        append("# changed again")
        git("commit", "-qam", "3")


if __name__ == "__main__":
    change_settings()
    cpu, cuda, cpu_later = write_ids("cpu", "cu130", "cpu")
    assert cpu.startswith("_activation_cpu_") and \
        cuda.startswith("_activation_cuda_"), \
        f"the ids of the variants for cpu and cu130 are {cpu} and {cuda}"
    assert cpu != cpu_later, f"built again after a commit, the id is still {cpu}"
