//===- OldGlibc.cpp - two functions of newer glibcs, for glibc 2.34 -----------------------------------------------===//
//
// flashc links archives of LLVM and of the compiler, which are built on a machine with a newer glibc. These archives
// call two functions that older versions of glibc do not have. The linker takes the definitions below for these
// functions, and does not export them. So a binary runs with the glibc that test/CAPI/exports.test names.

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

/// Returns random bits, as in glibc 2.36. LLVM uses them for the names of temporary files.
extern "C" uint32_t arc4random(void) noexcept {
  uint32_t bits;
  if (getentropy(&bits, sizeof bits))
    std::abort(); // Like glibc: the function has no error to return.
  return bits;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
namespace {
struct Search {
  uintptr_t address;
  dl_find_object *found;
};

/// Whether a loaded object contains the address. If so, stores the object's unwinding tables in the result.
int findIn(dl_phdr_info *object, size_t, void *data) {
  auto *search = static_cast<Search *>(data);
  bool hasAddress = false;
  const ElfW(Phdr) *tables = nullptr;
  for (const ElfW(Phdr) *header = object->dlpi_phdr; header != object->dlpi_phdr + object->dlpi_phnum; ++header) {
    if (header->p_type == PT_GNU_EH_FRAME)
      tables = header;
    if (header->p_type == PT_LOAD && search->address - (object->dlpi_addr + header->p_vaddr) < header->p_memsz)
      hasAddress = true;
  }
  if (!hasAddress || !tables)
    return 0;
  search->found->dlfo_eh_frame = reinterpret_cast<void *>(object->dlpi_addr + tables->p_vaddr);
  return 1;
}
} // namespace

/// Finds the unwinding tables of the object that contains an address, as in glibc 2.35. libgcc's unwinder reads only
/// dlfo_eh_frame. Returns 0, or -1 if there is no such object.
extern "C" int _dl_find_object(void *address, dl_find_object *found) noexcept {
  *found = {};
  Search search = {reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(findIn, &search) ? 0 : -1;
}
#endif
