"""Makes plain comments visible to Doxygen: `//` before a declaration is `///`,
and after one on its line `///<`. Marks of snippets go.

    comments.py HEADER
"""

import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text()
text = re.sub(r"^ *//! \[\w+\]$", "", text, flags=re.M)
# A block of them, unless an empty line or the preprocessor follows.
text = re.sub(r"^(?: *//(?!/).*\n)+(?= *[^\s/#}])",
              lambda m: re.sub("^( *)//", r"\1///", m[0], flags=re.M), text, flags=re.M)
print(re.sub(r"([;,{] +)//(?= )", r"\1///<", text))
