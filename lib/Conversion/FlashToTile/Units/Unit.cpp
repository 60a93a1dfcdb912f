//===- Unit.cpp - who runs a tile ---------------------------------------------------------------------------------===//

#include "Units/Unit.h"

using namespace flashc;

namespace flashc {
#define UNIT(Name) std::unique_ptr<Unit> match##Name##Unit(const Schedule &schedule);
#include "Units/Units.def"
} // namespace flashc

std::unique_ptr<Unit> flashc::makeUnit(const Schedule &schedule) {
#define UNIT(Name)                                                                                                     \
  if (std::unique_ptr<Unit> unit = match##Name##Unit(schedule))                                                        \
    return unit;
#include "Units/Units.def"
  llvm_unreachable("the last kind takes any schedule");
}
