"""Prints a file with its line `// REPEAT <text>` repeated: `repeat_line.py <file> <count>`. In the text, {number}
counts from 0 and {next} from 1. Everywhere in the file, {last} is the count."""
import sys

count = int(sys.argv[2])
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file.read().replace("{last}", str(count)).splitlines():
        if "// REPEAT " not in line:
            print(line)
            continue
        text = line.split("// REPEAT ")[1]
        for number in range(count):
            print(text.replace("{number}", str(number)).replace("{next}", str(number + 1)))
