/* main LIBRARY INPUT: runs the flashc program several times in this process. The process shares no symbol with the
 * library: neither symbols of flashc nor the mathematical functions that compiled programs call. */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*Main)(int argc, char **argv);

int main(int argc, char **argv) {
  void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  Main flashc;
  if (!library) {
    fprintf(stderr, "expected a library and an input: %s\n", argc == 3 ? dlerror() : "main LIBRARY INPUT");
    return 1;
  }
  *(void **)&flashc = dlsym(library, "flashcMain");
  char *commands[][4] = {{"flashc", "--version", NULL, NULL},
                         {"flashc", argv[2], "--emit=loops", "--mlir-print-debuginfo"},
                         {"flashc", argv[2], "--emit=nonsense", NULL},
                         {"flashc", argv[2], "--no-such-option", NULL},
                         {"flashc", "--help", NULL, NULL},
                         {"flashc", argv[2], "--check", NULL},
                         {"flashc", argv[2], "--emit=flash", NULL}};
  for (size_t run = 0; run < sizeof commands / sizeof *commands; ++run) {
    int count = 0;
    while (count < 4 && commands[run][count])
      ++count;
    printf("run %zu\n", run);
    fflush(stdout);
    int status = flashc(count, commands[run]);
    printf("status %d\n", status);
    fflush(stdout);
  }
  return 0;
}
