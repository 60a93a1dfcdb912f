//===- Schedule.h - the choices that turn an attention into a kernel ----------------------------------------------===//
//
// A value type: chosen by a row of a table (ScheduleTable.h), then overridden from text. A new field is a member here
// and a line of the list in Schedule.cpp, which parsing, printing and comparing share; what it needs of other fields
// and of the attention is a row of TiledRules.cpp or DecodeRules.cpp.
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

/// Kinds of kernels. Decode: few queries of each sequence against keys in a cache (docs/decode.md). Plain: a kernel
/// without tiles, for which there is nothing to choose.
enum class KernelKind { Forward, Decode, ColumnSums, Backward, Plain };

/// The kind as the `kind=` of a table's row: forward, decode, column-sums, backward, plain.
llvm::StringRef getKindName(KernelKind kind);
std::optional<KernelKind> lookupKind(llvm::StringRef name);

/// In which order a persistent kernel takes tiles of queries. Closed: by arithmetic on their numbers, right where the
/// last tiles see the most keys or all see the same. List: by a list that another kernel makes first (`tile-order`).
/// Auto: as the mask's bounds ask for.
enum class Order { Auto, Closed, List };

/// How the output leaves: straight from registers, or by TMA, through Q's slot or through shared memory of its own, so
/// that Q's slot is free when its last product is done.
enum class Store { Registers, QSlot, OwnSlot };

/// What of the next tile is computed before this one is stored.
using mlir::tile::Epilogue;

/// The maximum of a row's scores. Unified: none is subtracted, exponents are those of the scores themselves, which the
/// score region keeps small. The sum must have the weights' rounding (`tensorSums`): the only weight of a row cancels.
enum class Max { Running, Unified };

/// Which gradients have loops of their own (flash-split-gradients). None: dq is added up in memory. Queries: dk and dv
/// in one nest, dq in another one. Each: all three.
enum class SplitGradients { None, Queries, Each };

/// How the parts of the keys of a decoding kernel become one result. Cluster: their CTAs are one cluster and push their
/// states into each other's shared memory. Kernel: parts go to the workspace, and another kernel merges them.
enum class Merge { Cluster, Kernel };

/// docs/schedules.md says what each choice means. The initial values are those of a table's row that says nothing.
/// Kernels of every kind have these fields.
struct CommonSchedule {
  int64_t stages = 2;
};

/// Fields of kernels whose warpgroups compute products: all kinds but decoding.
struct TiledSchedule {
  int64_t consumers = 2;
  int64_t kvTile = 128;
  bool overlap = true;
  bool pingPong = true;
  bool persistent = true;
  /// Slots of a consumer's ring of Q: with two, a persistent CTA loads the next tile's while this one's is in use.
  int64_t qStages = 1;
  Order order = Order::Auto;

  /// Query rows of a CTA: the q-tile of L1.
  int64_t getQTile() const;
};

/// The forward pass's alone.
struct ForwardSchedule {
  Epilogue epilogue = Epilogue::Plain;
  Store store = Store::Registers;
  /// The tensor cores sum the rows of P: eight columns of ones beside V.
  bool tensorSums = false;
  /// Exponentials of a thread before the wait for the product of P and V beside them; 0: where ptxas puts it.
  int64_t waitAfter = 0;
  Max max = Max::Running;
  /// What a score adds to s that grows along the keys is a step of depth more of Q K^T: slope times column number.
  bool tensorBias = false;
  /// Each consumer visits the tiles of keys that its own 64 rows see, and not all of the CTA's.
  bool ownKeys = false;
};

/// Fields of the forward pass and of decoding.
struct SplitSchedule {
  /// Parts of a tile's keys, a CTA for each, which are merged: where tiles are too few to fill the GPU.
  int64_t splits = 1;
};

/// Fields of decoding kernels, which are bound by the bytes that they read.
struct DecodeSchedule {
  /// Warps of a CTA; they share its part of the keys, tile by tile.
  int64_t warps = 8;
  /// Keys of a part, whatever the length of a sequence; 0: `splits` equal parts.
  int64_t chunk = 0;
  Merge merge = Merge::Cluster;

  /// Rows of a tile, and its keys: those of a warp's products.
  static constexpr int64_t kRows = 16, kKeys = 16;
  /// The most CTAs of a cluster that all GPUs can run.
  static constexpr int64_t kMostCluster = 8;
};

/// The backward pass's alone.
struct GradientSchedule {
  /// Each nest of loops is a kernel.
  SplitGradients splitGradients = SplitGradients::Queries;
};

/// Registers of a thread of each role.
struct RoleRegisters {
  int64_t producer, consumer;
};

struct Schedule : CommonSchedule, TiledSchedule, ForwardSchedule, SplitSchedule, GradientSchedule, DecodeSchedule {
  Schedule(KernelKind kind = KernelKind::Forward) : kind(kind) {}

  KernelKind kind;

  /// CTAs of a cluster: of a decoding kernel those of a tile's parts, or one.
  int64_t getCluster() const {
    return kind == KernelKind::Decode && merge == Merge::Cluster && chunk == 0 ? splits : 1;
  }

  /// What of the CTA's registers `setmaxnreg` gives the roles: they follow from how many consumers there are.
  RoleRegisters getRegisters() const;

  /// The key and value of every field that the kind has, as text.
  llvm::SmallVector<std::pair<llvm::StringRef, std::string>, 20> getFields() const;
  /// Prints what `overrideSchedule` reads: `consumers=2,kv-tile=128,...`.
  std::string str() const;
  /// The kind and its fields as a dictionary: numbers, flags and names.
  mlir::DictionaryAttr getAttr(mlir::MLIRContext *context) const;
  /// What `getAttr` gives; fields that it leaves out have their initial values.
  static llvm::Expected<Schedule> get(mlir::DictionaryAttr attribute);
  bool operator==(const Schedule &other) const { return kind == other.kind && str() == other.str(); }
};

/// L1's function carries its schedule, decided once, as this attribute (Schedule::getAttr).
constexpr llvm::StringLiteral kScheduleAttrName = "flashc.schedule";

/// Applies overrides such as `consumers=2,kv-tile=128,ping-pong=false`. The keys are those that Schedule::str prints.
/// Ping-pong follows the number of consumers unless it is given too.
llvm::Error overrideSchedule(Schedule &schedule, llvm::StringRef overrides);

/// Whether `overrides` give the field `key`.
bool hasOverride(llvm::StringRef overrides, llvm::StringRef key);

/// Whether kernels of a kind have the field `key`.
bool hasField(KernelKind kind, llvm::StringRef key);

/// The kinds of kernels that have all fields of `overrides`.
llvm::SmallVector<KernelKind, 4> getKinds(llvm::StringRef overrides);

/// Refuses fields in `overrides` that kernels of the kind do not have.
llvm::Error checkFields(KernelKind kind, llvm::StringRef overrides);

/// What in `overrides` no kernel has: a word, a value that is none of its field's, or fields of different kinds.
llvm::Error checkOverrides(llvm::StringRef overrides);

/// What a kernel of a schedule takes of the hardware's budgets.
struct ScheduleNeeds {
  /// Shared memory of a CTA, with barriers and alignment.
  int64_t sharedMemoryBytes = 0;
  /// Registers of a CTA: what the producer and the consumers ask for.
  int64_t ctaRegisters = 0;
  /// What there is for a CTA of so many threads.
  int64_t mostRegisters = 0;
  /// Registers of a consumer thread: tiles, and what everything else takes.
  int64_t tileRegisters = 0;
};

/// For head dimension `d` of queries and keys, `dv` of values, and 16-bit elements. Of a launch's kernels what the one
/// takes that takes the most.
ScheduleNeeds getScheduleNeeds(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv);

} // namespace flashc

#endif // FLASHC_SCHEDULE_SCHEDULE_H
