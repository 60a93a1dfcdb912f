//===- TiledRules.cpp - rules of kernels whose warpgroups compute products ----------------------------------------===//

#include "RuleTable.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace flashc;

/// Returns a field of the schedule as text, such as `epilogue=product`.
static std::string show(const Draft &d, StringRef key) {
  for (const auto &[field, value] : d.s.getFields())
    if (field == key)
      return (field + "=" + value).str();
  return "";
}

/// If `splits` is above 1, a CTA computes a part of one tile. These fields must then have these values.
static constexpr std::pair<StringLiteral, StringLiteral> kOfParts[] = {
    {"own-keys", "false"}, {"epilogue", "plain"}, {"store", "registers"}, {"max", "running"}, {"tensor-sums", "false"}};

/// Returns the first field of `s` that `splits` above 1 rules out, as text such as `max=unified`. Empty if there is
/// none.
static std::string findOfWhole(const Schedule &s) {
  for (const auto &[field, value] : s.getFields())
    for (auto [ofParts, expected] : kOfParts)
      if (field == ofParts && value != expected)
        return (field + "=" + value).str();
  return "";
}

static void setParts(Draft &d) {
  for (auto [field, value] : kOfParts)
    if (!d.isAsked(field))
      llvm::cantFail(overrideSchedule(d.s, (field + "=" + value).str()));
}

/// The rules in order; docs/schedules.md contains them as a table.
static const Rule kRules[] = {
    // Fields that neither the row nor an override sets.
    {"tensor-sums", "neither the row nor an override sets it, and values have one panel (64), or `max=unified`", "true",
     [](const Draft &d) {
       return d.isForward() && !d.isSaid("tensor-sums") &&
              (d.question.dv == d.target().getPanelCols() || d.s.max == Max::Unified);
     }},
    {"ping-pong", "neither the row nor an override sets it, and `kind` is not `forward`", "false",
     [](const Draft &d) { return !d.isForward() && !d.isSaid("ping-pong"); }},
    {"persistent", "neither the row nor an override sets it, and `kind=backward`", "false",
     [](const Draft &d) { return d.isBackward() && !d.isSaid("persistent"); }},

    // Ranges of numbers.
    {"consumers", "it is not 1 to 4", "",
     [](const Draft &d) { return d.s.consumers < 1 || d.s.consumers > tile::kMaxConsumers; },
     [](const Draft &d) {
       return "expected 1 to " + print(tile::kMaxConsumers) + " consumers, got " + print(d.s.consumers);
     }},
    {"heads",
     "it does not divide the group of query heads that share a key head, or is more than the 64 rows of a consumer", "",
     [](const Draft &d) {
       return d.s.heads > tile::kTileRows || d.question.group % std::max<int64_t>(d.s.heads, 1) != 0;
     },
     [](const Draft &d) {
       return "expected heads to be at most " + print(tile::kTileRows) + " and to divide the group of " +
              print(d.question.group) + " query heads that share a key head, got " + print(d.s.heads);
     }},
    {"heads", "it is above 1, and there is dropout", "",
     [](const Draft &d) { return d.s.heads > 1 && d.question.hasDropout; },
     [](const Draft &d) { return "expected heads=1 with dropout, got " + print(d.s.heads); }},
    {"kv-tile", "it is not 16 to 256 in steps of 16", "",
     [](const Draft &d) { return !d.target().allowsKeys(d.s.kvTile); },
     [](const Draft &d) {
       return "expected a kv-tile of " + print(d.target().depthStep) + " to " + print(d.target().maxCols) +
              " in steps of " + print(d.target().depthStep) + ", got " + print(d.s.kvTile);
     }},
    {"kv-tile", "`split-gradients=none`, and it is not in steps of 64", "",
     [](const Draft &d) {
       return d.s.splitGradients == SplitGradients::None && d.s.kvTile % d.target().getPanelCols() != 0;
     },
     [](const Draft &d) {
       return "expected a kv-tile in steps of " + print(d.target().getPanelCols()) + " for split-gradients=none, got " +
              print(d.s.kvTile);
     }},
    {"split-gradients", "it is `none`, and the backward pass is deterministic", "",
     [](const Draft &d) { return d.question.isDeterministic && d.s.splitGradients == SplitGradients::None; },
     [](const Draft &) -> std::string {
       return "expected split-gradients=queries or each for a deterministic backward pass, got none: dq would be added "
              "up in any order";
     }},
    {"stages", "it is not 1 to 64", "", [](const Draft &d) { return !isCount(d.s.stages); },
     [](const Draft &d) { return "expected 1 to 64 stages, got " + print(d.s.stages); }},
    {"q-stages", "it is not 1 to 64", "", [](const Draft &d) { return !isCount(d.s.qStages); },
     [](const Draft &d) { return "expected 1 to 64 q-stages, got " + print(d.s.qStages); }},
    {"splits", "it is not 1 to 64", "", [](const Draft &d) { return !isCount(d.s.splits); },
     [](const Draft &d) { return "expected 1 to 64 splits, got " + print(d.s.splits); }},
    {"ping-pong", "`consumers=1`", "", [](const Draft &d) { return d.s.pingPong && d.s.consumers == 1; },
     [](const Draft &) -> std::string { return "expected several consumers to ping-pong, got 1"; }},

    // With `persistent=true` the launch decides how long the parts of a tile are, and CTAs take parts from a list.
    {"persistent", "`splits` is above 1", "false", [](const Draft &d) { return d.hasParts() && d.s.persistent; }},
    {"own-keys, epilogue, store, max, tensor-sums", "`splits` is above 1",
     "false, plain, registers, running, false, unless overrides give them",
     [](const Draft &d) { return d.hasParts() && !findOfWhole(d.s).empty(); },
     [](const Draft &d) { return "expected splits=1 for " + findOfWhole(d.s); }, setParts},

    // `tensor-sums`: the product of P and V also computes the row sums of P, by columns of ones.
    {"tensor-sums", "the value dimension is no multiple of 64", "false",
     [](const Draft &d) { return d.s.tensorSums && d.question.dv % d.target().getPanelCols() != 0; },
     [](const Draft &d) {
       return "expected a value dimension in steps of " + print(d.target().getPanelCols()) + " for tensor-sums, got " +
              print(d.question.dv);
     }},
    {"tensor-sums", "the log-sum-exp is an output", "false",
     [](const Draft &d) { return d.s.tensorSums && d.question.outputs.hasLse; },
     [](const Draft &) -> std::string {
       return "expected no log-sum-exp output for tensor-sums: P is rounded to 16 bits before it is summed, which the "
              "log-sum-exp would show";
     }},
    {"tensor-sums", "probabilities are dropped", "false",
     [](const Draft &d) { return d.s.tensorSums && d.question.hasDropout; },
     [](const Draft &) -> std::string {
       return "expected no dropout for tensor-sums: row sums include the dropped elements of P";
     }},

    // Shared memory. A row may use all of it. If an override, or the slopes of a score, need some of it, the fields
    // below lose the values that the row gives them.
    {"store", "overrides, or the slopes of a score, leave shared memory no room for `own-slot`", "q-slot",
     [](const Draft &d) {
       return d.s.store == Store::OwnSlot && (d.isOverridden() || d.wantsSlopes()) && !d.hasRoom();
     }},
    {"q-stages", "overrides leave shared memory no room for more, or CTAs no next tile", "1",
     [](const Draft &d) { return d.isOverridden() && (!d.s.persistent || !d.hasRoom()); }},
    {"tensor-sums", "overrides leave shared memory no room for the ones", "false",
     [](const Draft &d) { return d.s.tensorSums && d.isOverridden() && !d.isAsked("max") && !d.hasRoom(); }},
    {"stages", "overrides leave shared memory no room for so many", "half of it, at least 2",
     [](const Draft &d) { return d.isOverridden() && d.s.stages > 2 && !d.hasRoom(); }, nullptr,
     [](Draft &d) {
       while (d.s.stages > 2 && !d.hasRoom())
         d.s.stages = std::max<int64_t>(d.s.stages / 2, 2);
     }},

    // How the output is stored, and which part of the next tile is computed before this output is stored.
    {"store", "neither the row nor an override sets it, `splits` is 1, `persistent=true`, and `q-stages` is above 1",
     "q-slot",
     [](const Draft &d) {
       return d.isForward() && !d.isSaid("store") && !d.hasParts() && d.s.persistent && d.s.qStages > 1;
     }},
    {"store", "`own-slot` without a next tile, or `q-slot` that the row does not set with one slot of Q", "registers",
     [](const Draft &d) {
       return d.ofRow.store != Store::QSlot && (!d.s.persistent || (d.s.store == Store::QSlot && d.s.qStages == 1));
     }},
    {"store", "O has another type than the inputs", "registers",
     [](const Draft &d) { return d.s.store != Store::Registers && !d.question.outputs.hasInputType; },
     [](const Draft &d) { return "expected an output of " + d.question.dtype + " for " + show(d, "store"); }},
    {"store", "the GPU has no TMA", "registers",
     [](const Draft &d) { return d.s.store != Store::Registers && !d.target().hasTMA; },
     [](const Draft &d) { return "expected a GPU with TMA for " + show(d, "store"); }},
    {"store", "it is `q-slot`, and O has more panels of columns than Q", "registers",
     [](const Draft &d) {
       return d.s.store == Store::QSlot && d.target().countPanels(d.question.dv) > d.target().countPanels(d.question.d);
     },
     [](const Draft &d) {
       return "expected a slot of Q with room for O for store=q-slot, got dimensions of " + print(d.question.d) +
              " and " + print(d.question.dv);
     }},
    {"store", "an override gives an `epilogue`, and Q has one slot", "registers",
     [](const Draft &d) {
       return d.s.store == Store::QSlot && d.isAsked("epilogue") && d.isOverlapped() && d.s.qStages == 1;
     }},
    {"store", "it is `q-slot`, and tiles of queries begin at packed sequences", "registers",
     [](const Draft &d) { return d.s.store == Store::QSlot && d.question.loops.hasSegments; },
     [](const Draft &) -> std::string {
       return "expected store=own-slot or registers where tiles of queries follow packed sequences: the last tile of a "
              "sequence is not stored by TMA, and the next Q may be in its slot by then";
     }},
    {"store", "`heads` is above 1, and tiles of queries begin at packed sequences", "registers",
     [](const Draft &d) { return d.s.store != Store::Registers && d.s.heads > 1 && d.question.loops.hasSegments; },
     [](const Draft &d) {
       return "expected store=registers for tiles of several heads that begin at packed sequences, got " +
              show(d, "store");
     }},
    {"epilogue", "neither the row nor an override sets it, `splits` is 1, and `q-stages` is above 1", "product",
     [](const Draft &d) { return d.isForward() && !d.isSaid("epilogue") && !d.hasParts() && d.s.qStages > 1; }},
    {"epilogue", "overrides leave one slot of Q", "plain",
     [](const Draft &d) { return d.isOverridden() && d.s.qStages == 1; }},
    {"epilogue", "`store=q-slot`, and Q has one slot", "",
     [](const Draft &d) { return d.isOverlapped() && d.s.store == Store::QSlot && d.s.qStages == 1; },
     [](const Draft &d) {
       return "expected q-stages of 2 or store=own-slot for " + show(d, "epilogue") + " with store=q-slot, got 1";
     }},

    // Key ranges of consumers.
    {"own-keys", "the mask has no bounds for a few rows, or bounds that read arrays in a row without `rows=listed`",
     "false", [](const Draft &d) { return d.question.rows != RowsClass::Bounded && !(d.row.rows && d.mayList()); }},
    {"own-keys", "the bounds read arrays, and `heads` is above 1", "",
     [](const Draft &d) { return d.s.ownKeys && d.isListed() && d.s.heads > 1; },
     [](const Draft &) -> std::string {
       return "expected heads=1 for own-keys of a mask whose bounds read arrays: the work list has tiles of one head";
     }},
    {"own-keys", "the bounds read arrays, and `persistent=false`", "",
     [](const Draft &d) { return d.s.ownKeys && d.isListed() && !d.mayList(); },
     [](const Draft &) -> std::string {
       return "expected persistent=true for own-keys of a mask whose bounds read arrays: the work list has the bounds "
              "of each consumer";
     }},
    {"own-keys", "the mask has no bounds for a few rows", "",
     [](const Draft &d) { return d.s.ownKeys && d.question.rows == RowsClass::None; },
     [](const Draft &) -> std::string {
       return "expected a mask with one interval of keys that moves with the query for own-keys (and, if its bounds "
              "read no array, intervals that are the same for all queries)";
     }},
    {"epilogue", "an override gives `own-keys=true`", "plain",
     [](const Draft &d) { return d.isAsked("own-keys") && d.s.ownKeys; }},
    {"own-keys", "`epilogue` is not `plain`", "false", [](const Draft &d) { return d.s.ownKeys && d.isOverlapped(); },
     [](const Draft &) -> std::string {
       return "expected epilogue=plain for own-keys: the next tile's first product would run before this tile passes "
              "its turn on";
     }},
    {"ping-pong", "the row sets `own-keys`, and so no turns, but the kernel cannot have `own-keys`", "true",
     [](const Draft &d) { return d.ofRow.ownKeys && !d.s.ownKeys && d.s.consumers > 1; }},
    {"own-keys", "known extents leave no loop with a mask", "false",
     [](const Draft &d) { return d.s.ownKeys && !d.question.loops.isMasked; }},

    // Fields that need another field.
    {"epilogue", "`persistent=false`", "plain", [](const Draft &d) { return d.isOverlapped() && !d.s.persistent; },
     [](const Draft &d) { return "expected persistent for " + show(d, "epilogue"); }},
    {"wait-after", "an override gives a `kv-tile`, and it is more than half of that", "half of the `kv-tile`",
     [](const Draft &d) { return d.isAsked("kv-tile") && d.s.waitAfter > d.s.kvTile / 2; }, nullptr,
     [](Draft &d) { d.s.waitAfter = d.s.kvTile / 2; }},
    {"wait-after", "it is negative, or more than half of `kv-tile`", "",
     [](const Draft &d) { return d.s.waitAfter < 0 || d.s.waitAfter > d.s.kvTile / 2; },
     [](const Draft &d) {
       return "expected wait-after to be at most half of kv-tile, the " + print(d.s.kvTile / 2) +
              " exponentials of a thread, got " + print(d.s.waitAfter);
     }},
    {"max", "it is `unified`, and `tensor-sums=false`", "running",
     [](const Draft &d) { return d.s.max == Max::Unified && !d.s.tensorSums; },
     [](const Draft &) -> std::string { return "expected tensor-sums for max=unified"; }},
    {"q-stages", "CTAs take work tiles from a list, `persistent=true`, and it is above 3", "",
     [](const Draft &d) { return d.question.loops.isSorted && d.s.persistent && d.s.qStages >= tile::kPublishPlaces; },
     [](const Draft &d) {
       return "expected at most " + print(tile::kPublishPlaces - 1) + " q-stages for a work list, got " +
              print(d.s.qStages);
     }},

    // The hardware's limits.
    {"consumers", "the CTA needs more registers than the hardware gives so many threads", "",
     [](const Draft &d) { return d.needs().ctaRegisters > d.needs().mostRegisters; },
     [](const Draft &d) {
       return "expected at most " + print(d.needs().mostRegisters) + " registers per CTA, got " +
              print(d.needs().ctaRegisters);
     }},
    {"kv-tile", "the tiles of a thread take more registers than the thread has", "",
     [](const Draft &d) { return d.needs().tileRegisters > d.s.getRegisters().consumer; },
     [](const Draft &d) {
       return "expected tiles that fit " + print(d.s.getRegisters().consumer) + " registers per consumer thread, got " +
              print(d.needs().tileRegisters) + " for a kv-tile of " + print(d.s.kvTile) + " and a value dimension of " +
              print(d.question.dv);
     }},
    {"stages", "rings, slots and lists take more shared memory than the hardware has", "",
     [](const Draft &d) { return !d.hasRoom(); },
     [](const Draft &d) {
       return "expected at most " + print(d.target().maxSharedMemory) + " bytes of shared memory, got " +
              print(d.needs().sharedMemoryBytes);
     }},
};

ArrayRef<Rule> flashc::getTiledRules() { return kRules; }
