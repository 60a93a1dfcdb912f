# cmake -DINPUT=a.txt -DOUTPUT=a.inc -P EmbedText.cmake: the text as a C++ string literal.
file(READ "${INPUT}" text)
file(WRITE "${OUTPUT}" "R\"text(${text})text\"\n")
