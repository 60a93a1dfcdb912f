#!/bin/sh
# make_venv.sh PYTHON REQUIREMENTS FOLDER: makes a virtual environment with the packages of a requirements file, unless
# FOLDER has been made from a file of the same content. A copy of the file in FOLDER, written last, says which.
set -eu

python=$1 requirements=$2 folder=$3
made_from=$folder/made-from.txt
cmp -s "$requirements" "$made_from" && exit 0

echo "Installing $requirements into $folder"
"$python" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -r "$requirements"
cp "$requirements" "$made_from"
