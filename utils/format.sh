#!/bin/sh
# Formats C, C++ and Python as .clang-format and pyproject.toml say. `format.sh --check` changes nothing, prints what it
# would change and each line of more than 120 columns, and fails if there is any.
set -u
cd "$(dirname "$0")/.." || exit

list() { git ls-files "$@"; }

if [ "${1-}" != --check ]; then
  list '*.c' '*.cpp' '*.h' | xargs clang-format-22 -i
  list '*.py' | xargs autopep8 --in-place
  exit
fi

status=0
list '*.c' '*.cpp' '*.h' | xargs -P 2 -n 200 clang-format-22 --dry-run -Werror || status=1
list '*.py' | xargs autopep8 --jobs 2 --diff --exit-code || status=1
list '*.c' '*.cpp' '*.h' '*.py' '*.td' '*.sh' '*.cmake' '*CMakeLists.txt' |
  xargs awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; found = 1 } END { exit found }' ||
  status=1
exit $status
