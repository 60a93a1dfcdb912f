//===- FrameKinds.cpp - chooses the values of a frame -------------------------------------------------------------===//

#include "Sources/Source.h"
#include "Walks/Walk.h"

using namespace flashc;

std::unique_ptr<Source> flashc::makeSource(KernelFrame &frame, const NestOperand &operand) {
  std::unique_ptr<Source> value;
#define SOURCE(Name) value = value ? std::move(value) : match##Name##Source(frame, operand);
#include "FrameKinds.def"
  return value;
}

std::unique_ptr<Rows> flashc::makeRows(LoopNest &nest) {
  std::unique_ptr<Rows> value;
#define ROWS(Name) value = value ? std::move(value) : match##Name##Rows(nest);
#include "FrameKinds.def"
  return value;
}

std::unique_ptr<Unit> flashc::makeUnit(const Schedule &schedule) {
  std::unique_ptr<Unit> value;
#define UNIT(Name) value = value ? std::move(value) : match##Name##Unit(schedule);
#include "FrameKinds.def"
  return value;
}

std::unique_ptr<Walk> flashc::makeWalk(KernelFrame &frame) {
  std::unique_ptr<Walk> value;
#define WALK(Name) value = value ? std::move(value) : match##Name##Walk(frame);
#include "FrameKinds.def"
  return value;
}
