//===- BuildID.cpp - which build of flashc this is ----------------------------------------------------------------===//

#include "flashc/Runtime/BuildID.h"
#include "flashc/Version.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <link.h>

using namespace llvm;

/// Finds the build ID in a segment of notes. Each note consists of the size of its name, the size of its contents, a
/// type, the name, and the contents. The name and the contents are padded to 4 bytes (System V ABI, "Note Section").
static StringRef findBuildID(StringRef notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    size_t nameBytes = alignTo(header.n_namesz, 4), bytes = alignTo(header.n_descsz, 4);
    notes = notes.drop_front(sizeof(header));
    if (nameBytes + bytes > notes.size())
      break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.starts_with(StringRef("GNU\0", 4)))
      return notes.substr(nameBytes, header.n_descsz);
    notes = notes.drop_front(nameBytes + bytes);
  }
  return "";
}

namespace {
struct Search {
  uintptr_t address; ///< an address in the object that is searched
  StringRef buildID;
};
} // namespace

/// Is called by dl_iterate_phdr for each loaded object. Stores the build ID of the object that contains the address.
static int visitObject(dl_phdr_info *info, size_t, void *data) {
  auto *search = static_cast<Search *>(data);
  ArrayRef<ElfW(Phdr)> segments(info->dlpi_phdr, info->dlpi_phnum);
  if (none_of(segments, [&](const ElfW(Phdr) & segment) {
        return segment.p_type == PT_LOAD && search->address - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz;
      }))
    return 0;
  for (const ElfW(Phdr) &segment : segments)
    if (segment.p_type == PT_NOTE && search->buildID.empty())
      search->buildID =
          findBuildID(StringRef(reinterpret_cast<const char *>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz));
  return 1;
}

const std::string &flashc::getBuildID() {
  static const std::string id = [] {
    Search search{reinterpret_cast<uintptr_t>(&visitObject), ""};
    dl_iterate_phdr(visitObject, &search);
    return search.buildID.empty() ? "" : FLASHC_VERSION "-" + toHex(search.buildID, /*LowerCase=*/true);
  }();
  return id;
}
