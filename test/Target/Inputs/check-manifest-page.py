"""Fails unless the json block of a page equals a manifest: check-manifest-page.py PAGE.md KERNEL.json"""

import json
import re
import sys

with open(sys.argv[1]) as file:
    block = re.search(r"```json\n(.*?)```", file.read(), re.S)
assert block, "no json block"
with open(sys.argv[2]) as file:
    manifest = json.load(file)
page = json.loads(block[1])
wrong = [key for key in sorted({*page, *manifest}) if page.get(key) != manifest.get(key)]
for key in wrong:
    print(f"{key}: the page has {page.get(key)}, the compiler wrote {manifest.get(key)}")
sys.exit(bool(wrong))
