"""python -m torch_stable_abi: the command torch-stable-abi."""

import sys

from torch_stable_abi.cli import main

sys.exit(main())
