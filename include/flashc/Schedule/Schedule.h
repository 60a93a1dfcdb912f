//===- Schedule.h - the choices that turn an attention into a kernel ----------------------------------------------===//
//
// A schedule is a value: a row of a table (ScheduleTable.h) gives it, and overrides from text change it. A new field is
// a member here and a line of the list in Schedule.cpp, which parsing, printing and comparing share; its conditions on
// other fields and on the attention are rows of TiledRules.cpp or DecodeRules.cpp.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_SCHEDULE_H
#define FLASHC_SCHEDULE_SCHEDULE_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Target/GPUTarget.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace flashc {

/// Kinds of kernels. Decode: few queries of each sequence against keys in a cache (docs/decode.md). Plain: a
/// memory-bound kernel without tiles and without choices.
enum class KernelKind { Forward, Decode, ColumnSums, Backward, Plain };

/// The name of the kind in a table's row (`kind=`): forward, decode, column-sums, backward, plain.
llvm::StringRef getKindName(KernelKind kind);
std::optional<KernelKind> lookupKind(llvm::StringRef name);

/// How the output is stored: from registers, by TMA from Q's slot, or by TMA from a slot of its own. In the last case
/// Q's slot is free after the tile's last product.
enum class Store { Registers, QSlot, OwnSlot };

/// The part of the next tile that is computed before the current tile is stored.
using mlir::tile::Epilogue;

/// The maximum that softmax subtracts. Unified: softmax subtracts none, since the score region keeps the exponents
/// small. Then `tensorSums` is needed: P is rounded, and in a row with one key the rounding cancels only if the row sum
/// adds the rounded element.
enum class Max { Running, Unified };

/// Which gradients have loops of their own (flash-split-gradients). None: one nest computes all, and adds up dq in
/// memory. Queries: one nest computes dk and dv, another one dq. Each: each gradient has a nest. Roles: as Queries, but
/// two consumers share each tile of keys of the nest of dk and dv. One computes P and dv, the other dX and dk.
enum class SplitGradients { None, Queries, Each, Roles };

/// How the results of the parts of the keys are merged in a decoding kernel. Cluster: the CTAs of the parts are a
/// cluster, and write their results into each other's shared memory. Kernel: the results go to the workspace, and
/// another kernel merges them.
enum class Merge { Cluster, Kernel };

/// Fields of kernels of every kind. docs/schedules.md says what each choice means. The initial values apply if a
/// table's row does not set the field.
struct CommonSchedule {
  int64_t stages = 2;
};

/// Fields of kernels whose warpgroups compute products: all kinds but decoding.
struct TiledSchedule {
  int64_t consumers = 2;
  int64_t kvTile = 128;
  bool pingPong = true;
  bool persistent = true;
  /// The number of slots of a consumer's ring of Q. With two, a persistent CTA loads the next tile's Q while it uses
  /// the current tile's Q.
  int64_t qStages = 1;
  /// The number of consumers that share the rows of a tile, each with some of the products. It follows from the nest.
  int64_t sharers = 1;

  /// The number of rows of a CTA.
  int64_t countRows() const;
};

/// Fields of the forward pass.
struct ForwardSchedule {
  Epilogue epilogue = Epilogue::Plain;
  Store store = Store::Registers;
  /// Whether the Tensor Cores also compute the row sums of P, as products of P with eight columns of ones next to V.
  bool tensorSums = false;
  /// The number of exponentials that a thread computes before it waits for the product of P and V. 0: ptxas decides.
  int64_t waitAfter = 0;
  Max max = Max::Running;
  /// Whether each consumer visits only the tiles of keys that its own 64 rows see, instead of all tiles that the CTA's
  /// rows see.
  bool ownKeys = false;
  /// The number of query heads of a group whose rows share a tile, so that the tile is full with few queries
  /// (FlashAttention-3's PackGQA). A consumer then has 64 div `heads` queries of each head.
  int64_t heads = 1;
};

/// Fields of the forward pass and of decoding.
struct SplitSchedule {
  /// The number of parts into which the keys of a tile are divided. Each part is a CTA, and the results of the parts
  /// are merged. Several parts are for launches with too few tiles to fill the GPU.
  int64_t splits = 1;
};

/// Fields of decoding kernels, whose time is the time of reading the cache.
struct DecodeSchedule {
  /// The number of warps of a CTA, which take turns at the tiles of the CTA's part of the keys.
  int64_t warps = 8;
  /// The number of keys of a part, for sequences of any length. 0: a sequence has `splits` equal parts.
  int64_t chunk = 0;
  Merge merge = Merge::Cluster;

  /// A tile has 16 rows and 16 keys, as a product of one warp has.
  static constexpr int64_t kRows = 16, kKeys = 16;
  /// The most CTAs of a cluster that all GPUs can run.
  static constexpr int64_t kMostCluster = 8;
};

/// Fields of the backward pass.
struct GradientSchedule {
  /// Which gradients have nests of loops of their own. Each nest is a kernel.
  SplitGradients splitGradients = SplitGradients::Queries;
  /// Whether a step reads lse and delta of its queries while the products run for which it then waits, and not after
  /// the waits. This hides the time of the reads, and takes a register for every 4 queries of a tile.
  bool earlyStatistics = false;
};

/// The number of registers of a thread, for each role.
struct RoleRegisters {
  int64_t producer, consumer;
};

struct Schedule : CommonSchedule, TiledSchedule, ForwardSchedule, SplitSchedule, GradientSchedule, DecodeSchedule {
  Schedule(KernelKind kind = KernelKind::Forward) : kind(kind) {}

  KernelKind kind;

  /// The number of queries of a CTA. Level L1 has query tiles of this size.
  int64_t getQTile() const { return countRows() / (consumers * heads) * consumers; }

  /// The number of keys of a CTA in the nest of dk and dv, where it differs from that of other nests. 0: it is the
  /// same.
  int64_t getGradientTile() const;

  /// The number of CTAs of a cluster: the number of parts of a tile in a decoding kernel with merge=cluster, otherwise
  /// 1.
  int64_t getCluster() const {
    return kind == KernelKind::Decode && merge == Merge::Cluster && chunk == 0 ? splits : 1;
  }

  /// Whether a reducer warpgroup adds dq up in memory.
  bool hasReducer() const { return kind == KernelKind::Backward && splitGradients == SplitGradients::None; }

  /// Returns the numbers of registers that `setmaxnreg` gives each role. They follow from the number of consumers and
  /// from whether there is a reducer.
  RoleRegisters getRegisters() const;

  /// The names and values of all fields of the kind, as text.
  llvm::SmallVector<std::pair<llvm::StringRef, std::string>, 20> getFields() const;
  /// The schedule in the form that `overrideSchedule` reads: `consumers=2,kv-tile=128,...`.
  std::string str() const;
  /// The kind and its fields as a dictionary: numbers, flags and names.
  mlir::DictionaryAttr getAttr(mlir::MLIRContext *context) const;
  /// Reads an attribute that `getAttr` made. Fields that are left out have their initial values.
  static llvm::Expected<Schedule> get(mlir::DictionaryAttr attribute);
  bool operator==(const Schedule &other) const { return kind == other.kind && str() == other.str(); }
};

/// The attribute by which a function of level L1 carries its schedule (Schedule::getAttr).
constexpr llvm::StringLiteral kScheduleAttrName = "flashc.schedule";

/// Applies overrides such as `consumers=2,kv-tile=128,ping-pong=false`, with the names that Schedule::str prints. An
/// override of the number of consumers also sets ping-pong, unless an override of ping-pong is given.
llvm::Error overrideSchedule(Schedule &schedule, llvm::StringRef overrides);

/// Whether `overrides` set the field `key`.
bool hasOverride(llvm::StringRef overrides, llvm::StringRef key);

/// Whether kernels of a kind have the field `key`.
bool hasField(KernelKind kind, llvm::StringRef key);

/// The kinds of kernels that have all fields of `overrides`.
llvm::SmallVector<KernelKind, 4> getKinds(llvm::StringRef overrides);

/// Refuses fields in `overrides` that kernels of the kind do not have.
llvm::Error checkFields(KernelKind kind, llvm::StringRef overrides);

/// Refuses words in `overrides` that no kernel has: unknown fields, wrong values, and fields of different kinds.
llvm::Error checkOverrides(llvm::StringRef overrides);

/// The hardware's resources that a kernel of a schedule needs.
struct ScheduleNeeds {
  /// Shared memory of a CTA, including barriers and alignment.
  int64_t sharedMemoryBytes = 0;
  /// The number of registers of a CTA: the sum over the producer, the consumers and, if there is one, the reducer.
  int64_t ctaRegisters = 0;
  /// The most registers that the hardware gives a CTA of so many threads.
  int64_t mostRegisters = 0;
  /// The number of registers that a consumer thread needs, for tiles and for all other values.
  int64_t tileRegisters = 0;
};

/// Parts of a kernel that follow from its mask and its score, and need shared memory.
struct KernelExtras {
  /// Whether CTAs take work tiles from a sorted work list (WorkOrder.h).
  bool isSorted = false;
  /// Whether the Tensor Cores add the slope times the column number to each score, in one more step of depth of Q K^T.
  bool hasSlopes = false;
};

/// Returns what a kernel of `schedule` needs for head dimensions `d` of queries and keys and `dv` of values, and for
/// 16-bit elements. If a launch has several kernels, returns the needs of the largest one.
ScheduleNeeds getScheduleNeeds(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv,
                               KernelExtras extras = {});

/// Whether the Tensor Cores can add the slopes of a score: in a forward kernel with a running maximum, if shared memory
/// has room.
bool canAddSlopes(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv, bool isSorted = false);

} // namespace flashc

#endif // FLASHC_SCHEDULE_SCHEDULE_H
