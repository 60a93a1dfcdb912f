//===- Order.cpp - a kernel that lists the work tiles of a program, the longest first ----------------------------===//

#include "OrderKernel.h"
#include "flashc/Dialect/Tile/IR/ScalarCode.h"
#include "flashc/Launch/Launch.h"
#include "flashc/Launch/Passes.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/RegionUtils.h"

namespace flashc {
#define GEN_PASS_DEF_ORDER
#include "flashc/Launch/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace mlir::tile;
using namespace flashc;

static InFlightDiagnostic refuse(Operation *op) { return op->emitOpError() << "cannot sort its work tiles: "; }

//===--------------------------------------------------------------------------------------------------------------===//
// The work of a work tile
//===--------------------------------------------------------------------------------------------------------------===//

/// Finds the loop over keys. The number of its iterations is the work of the work tile. Null if there is no such loop.
static scf::ForOp findLoopOverKeys(ProgramOp program) {
  for (auto loop : program.getBody().front().getOps<scf::ForOp>())
    if (hasLoads(loop))
      return loop;
  return {};
}

static constexpr unsigned kHeads = 1u << 1, kBatches = 1u << 2, kPart = 1u << 3;

/// Returns the op that the sizes of parts come from. Null if query tiles have no parts.
static PartSizeOp findPartSize(ProgramOp program) {
  auto ops = program.getBody().front().getOps<PartSizeOp>();
  return ops.empty() ? PartSizeOp() : *ops.begin();
}

namespace {
/// What the scalar code of a value depends on.
struct Source {
  /// A value that the scalar code uses although it is neither a result of scalar code nor a parameter of the kernel or
  /// of the work tile. Null if there is none.
  Value foreign;
  /// The dimensions of the grid that the value depends on, as bits. The part of a query tile has a bit of its own.
  unsigned dims = 0;
  /// `isRead`: whether the scalar code reads memory. `isOwn`: whether the value differs between warpgroups.
  bool isRead = false, isOwn = false;
};

class Sources {
public:
  explicit Sources(ProgramOp program) : program(program) {}

  Source get(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      bool isParameter = value.getParentBlock()->getParentOp() == program->getParentOp();
      Source source;
      source.isOwn = value == program.getWarpgroup();
      source.foreign = isParameter || source.isOwn ? Value() : value;
      return source;
    }
    auto [entry, isNew] = known.try_emplace(op);
    if (!isNew)
      return entry->second;
    Source source = compute(op, value);
    known[op] = source;
    return source;
  }

private:
  Source compute(Operation *op, Value value) {
    if (auto id = dyn_cast<gpu::BlockIdOp>(op))
      return {Value(), 1u << static_cast<unsigned>(id.getDimension())};
    if (isPart(op))
      return {Value(), kPart};
    if (!isScalarCode(op))
      return {value};
    Source source;
    // The order kernel knows the size of parts only after it has measured all items.
    source.dims = isa<PartSizeOp>(op) ? kPart : 0;
    source.isRead = op->walk([](memref::LoadOp) { return WalkResult::interrupt(); }).wasInterrupted();
    for (Value input : getInputs(op)) {
      Source of = get(input);
      source.foreign = source.foreign ? source.foreign : of.foreign;
      source.dims |= of.dims;
      source.isRead |= of.isRead;
      source.isOwn |= of.isOwn;
    }
    return source;
  }

  /// Whether `op` is the number of a part: x of the grid, mod the number of parts.
  bool isPart(Operation *op) {
    auto remainder = dyn_cast<arith::RemUIOp>(op);
    auto id = remainder ? remainder.getLhs().getDefiningOp<gpu::BlockIdOp>() : gpu::BlockIdOp();
    return id && id.getDimension() == gpu::Dimension::x && program.getWork()->getParts() > 1 &&
           getConstantIntValue(remainder.getRhs()) == program.getWork()->getParts();
  }

  ProgramOp program;
  llvm::DenseMap<Operation *, Source> known;
};
} // namespace

static ListScope getScope(unsigned dims) {
  return dims & kHeads ? ListScope::Heads : dims & kBatches ? ListScope::Batches : ListScope::Tiles;
}

/// Returns the dimensions of the grid in which the list's items differ.
static ArrayRef<unsigned> getDims(ListScope scope) {
  static constexpr unsigned tiles[] = {0}, batches[] = {0, 2}, heads[] = {0, 1, 2};
  if (scope == ListScope::Tiles)
    return tiles;
  return scope == ListScope::Batches ? ArrayRef<unsigned>(batches) : ArrayRef<unsigned>(heads);
}

/// The most numbers of an item that are the same for all warpgroups. tile.publish passes kPublishWords words, of which
/// four are a flag and the work tile's x, y and z.
static constexpr size_t kMostNumbers = kPublishWords - 4;
/// The most numbers of an item that are for single warpgroups, counted over all warpgroups.
static constexpr size_t kMostOwnNumbers = kOwnPublishWords - kPublishWords;

namespace {
/// The numbers that the list stores after each item: indices that the program would otherwise compute from memory.
class Numbers {
public:
  Numbers(ProgramOp program, ListScope scope, Sources &sources)
      : body(program.getBody().front()), warpgroup(program.getWarpgroup()), sources(sources) {
    if (PartSizeOp size = findPartSize(program))
      shared.push_back(size.getSize());
    for (unsigned dim : getDims(scope))
      dims |= 1u << dim;
    findOwn();
    findShared();
  }

  /// The first number is the size of parts, if query tiles have parts.
  SmallVector<Value> shared;
  /// The numbers that each warpgroup has of its own: results of tile.uniform that depend on memory and on the
  /// warpgroup.
  SmallVector<Value> own;
  /// Values that `own` depends on and that are the same for all warpgroups. The order kernel computes them only once.
  SetVector<Value> ofAll;

private:
  bool isOfItem(Operation *op, bool isOwn) {
    Source source = op->getNumResults() > 0 ? sources.get(op->getResult(0)) : Source();
    return source.isRead && source.isOwn == isOwn && !source.foreign && !(source.dims & ~dims);
  }

  void findOwn() {
    for (auto uniform : body.getOps<UniformOp>())
      if (isOfItem(uniform, /*isOwn=*/true) && !uniform->use_empty())
        own.push_back(uniform.getResult());
    SetVector<Value> worklist(own.begin(), own.end());
    for (size_t next = 0; next < worklist.size(); ++next)
      for (Value input : getInputs(worklist[next].getDefiningOp()))
        if (input != warpgroup)
          (sources.get(input).isOwn ? worklist : ofAll).insert(input);
    // The loop runs backwards, so that it visits the users of a value before the value.
    for (Operation &op : llvm::reverse(body))
      if (llvm::any_of(op.getResults(), [&](Value result) { return worklist.contains(result); }) &&
          (llvm::is_contained(own, op.getResult(0)) ||
           llvm::all_of(op.getUsers(), [&](Operation *user) { return ofOwn.contains(getInBody(user)); })))
        ofOwn.insert(&op);
  }

  void findShared() {
    for (Operation &op : body) {
      if (!isOfItem(&op, /*isOwn=*/false))
        continue;
      auto isUsed = [&](Operation *user) {
        return !ofOwn.contains(getInBody(user)) && (user->getBlock() != &body || !isOfItem(user, /*isOwn=*/false));
      };
      for (Value result : op.getResults())
        if (result.getType().isIndex() && llvm::any_of(result.getUsers(), isUsed) && shared.size() < kMostNumbers)
          shared.push_back(result);
    }
  }

  Operation *getInBody(Operation *user) { return body.findAncestorOpInBlock(*user); }

  Block &body;
  Value warpgroup;
  Sources &sources;
  unsigned dims = 0;
  /// Ops of the program's body whose results only the computation of `own` uses.
  llvm::DenseSet<Operation *> ofOwn;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The kernel
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Makes the order kernel, which writes the list, next to the program's kernel. Its parameters are the list and those
/// parameters of the program's kernel that it needs.
class OrderBuilder {
public:
  OrderBuilder(ProgramOp program, scf::ForOp loop)
      : program(program), loop(loop), main(cast<gpu::GPUFuncOp>(program->getParentOp())),
        b(program.getLoc(), program.getContext()) {}

  LogicalResult build();
  /// Adds the launch of the order kernel to `launch`. Is called after `build`.
  void describe(Launch &launch);

private:
  Value copy(Value value);
  int64_t countNumbers();
  bool isOfMaskMap(const ManifestKernel &order);
  SmallVector<Value, 2> getBounds();
  Value emitWork();
  std::optional<OrderKernel::Parts> emitParts();
  OrderKernel::Facts emitFacts(Value item);
  void readNumbers();
  void finish();

  ProgramOp program;
  scf::ForOp loop;
  gpu::GPUFuncOp main, kernel;
  ImplicitLocOpBuilder b;
  ListScope scope;
  IRMapping map;
  /// For each parameter of the order kernel but the list, the number of the same parameter of the main kernel.
  SmallVector<unsigned> parameters;
  std::optional<Numbers> numbers;
  std::array<Value, 3> grid, workTile;
};
} // namespace

/// Clones `value` into the order kernel.
Value OrderBuilder::copy(Value value) {
  return cloneSlice(b, value, map, [&](Value end) -> Value {
    if (auto argument = dyn_cast<BlockArgument>(end)) {
      parameters.push_back(argument.getArgNumber());
      return kernel.getBody().front().addArgument(argument.getType(), argument.getLoc());
    }
    if (auto id = end.getDefiningOp<gpu::BlockIdOp>())
      return workTile[static_cast<unsigned>(id.getDimension())];
    auto uniform = end.getDefiningOp<UniformOp>(); // not uniform here: each thread has its own work tile
    return uniform ? copy(uniform.getSource()) : Value();
  });
}

/// Returns the end of the loop over keys and then its beginning. If warpgroups have key ranges of their own, the loop
/// has a tile.own_visits as its end, and begins at 0. Then returns only the number of all visits.
SmallVector<Value, 2> OrderBuilder::getBounds() {
  if (auto own = loop.getUpperBound().getDefiningOp<OwnVisitsOp>())
    return {own.getTotal()};
  return {loop.getUpperBound(), loop.getLowerBound()};
}

/// Emits the work of an item. With parts it is the work of all parts, or 0 if the query tile has no rows: then no
/// result depends on the item, and the list leaves it out.
Value OrderBuilder::emitWork() {
  if (PartSizeOp size = findPartSize(program)) {
    Value one = arith::ConstantIndexOp::create(b, 1), rows = copy(size.getRows());
    Value tiles = arith::MaxSIOp::create(b, copy(size.getTiles()), one);
    return arith::MulIOp::create(b, tiles, arith::MinSIOp::create(b, rows, one));
  }
  SmallVector<Value, 2> bounds = getBounds();
  Value end = copy(bounds[0]);
  return bounds.size() == 1 ? end : arith::SubIOp::create(b, end, copy(bounds[1])).getResult();
}

/// Emits what the order kernel must know to divide items into parts: how many heads share an item.
std::optional<OrderKernel::Parts> OrderBuilder::emitParts() {
  if (!findPartSize(program))
    return std::nullopt;
  Value sharers = arith::ConstantIndexOp::create(b, 1);
  for (unsigned dim : {0u, 1u, 2u})
    if (!llvm::is_contained(getDims(scope), dim))
      sharers = b.createOrFold<arith::MulIOp>(sharers, copy(program.getGrid()[dim]));
  return OrderKernel::Parts{int64_t(program.getWork()->getParts()), sharers};
}

OrderKernel::Facts OrderBuilder::emitFacts(Value item) {
  auto divide = [&](Value x, Value y) -> std::pair<Value, Value> {
    Value quotient = arith::DivUIOp::create(b, x, y), remainder = arith::RemUIOp::create(b, x, y);
    return {quotient, remainder};
  };
  workTile = {item, Value(), Value()};
  if (scope != ListScope::Tiles)
    std::tie(workTile[2], workTile[0]) = divide(item, grid[0]);
  if (int64_t parts = program.getWork()->getParts(); parts > 1) // the first part stands for all
    workTile[0] = arith::MulIOp::create(b, workTile[0], arith::ConstantIndexOp::create(b, parts));
  if (scope == ListScope::Heads)
    std::tie(workTile[2], workTile[1]) = divide(workTile[2], grid[1]);
  OrderKernel::Facts facts;
  facts.work = emitWork();
  if (PartSizeOp size = findPartSize(program))
    facts.rows = copy(size.getRows());
  for (Value number : ArrayRef(numbers->shared).drop_front(findPartSize(program) ? 1 : 0))
    facts.numbers.push_back(copy(number));
  for (Value value : numbers->ofAll)
    copy(value);
  IRMapping ofAll = map;
  for (uint64_t warpgroup = 0; warpgroup < program.getConsumers() && !numbers->own.empty(); ++warpgroup) {
    map.map(program.getWarpgroup(), arith::ConstantIndexOp::create(b, warpgroup).getResult());
    for (Value number : numbers->own)
      facts.numbers.push_back(copy(number));
    map = ofAll;
  }
  return facts;
}

/// Returns how many numbers an item has.
int64_t OrderBuilder::countNumbers() { return numbers->shared.size() + program.getConsumers() * numbers->own.size(); }

LogicalResult OrderBuilder::build() {
  if (!findPartSize(program) != (program.getWork()->getParts() == 1))
    return refuse(program) << "expected a tile.part_size if query tiles have parts";
  if (getConstantIntValue(loop.getStep()) != 1)
    return refuse(program) << "expected a loop over keys in steps of one";
  Sources sources(program);
  unsigned dims = 0;
  for (Value value : llvm::concat<Value>(program.getGrid(), getBounds())) {
    Source source = sources.get(value);
    if (source.foreign || source.isOwn) {
      Value culprit = source.foreign ? source.foreign : program.getWarpgroup();
      InFlightDiagnostic diag = refuse(program) << "expected the loop over keys to be as long as scalar code says";
      diag.attachNote(culprit.getLoc()) << "it depends on this value";
      return diag;
    }
    dims |= source.dims;
  }
  scope = getScope(dims);
  numbers.emplace(program, scope, sources);
  if (program.getConsumers() * numbers->own.size() > kMostOwnNumbers)
    return refuse(program) << "expected at most " << kMostOwnNumbers << " numbers of warpgroups' own, got "
                           << program.getConsumers() * numbers->own.size();

  b.setInsertionPointAfter(main);
  kernel = createPlainKernel(b, b.getLoc(), (main.getName() + "_order").str(), kOrderThreads);
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value count;
  for (unsigned dim : getDims(scope)) {
    grid[dim] = copy(program.getGrid()[dim]);
    if (int64_t parts = program.getWork()->getParts(); dim == 0 && parts > 1)
      grid[dim] = arith::DivUIOp::create(b, grid[dim], arith::ConstantIndexOp::create(b, parts));
    count = count ? b.createOrFold<arith::MulIOp>(count, grid[dim]) : grid[dim];
  }
  // The list is the last parameter. The parameters before it are known only after `emit`, so a placeholder is used
  // until then.
  auto listType = MemRefType::get({ShapedType::kDynamic}, b.getI32Type());
  Block &entry = kernel.getBody().front();
  Value list = entry.addArgument(listType, b.getLoc());
  OrderKernel(b, kernel, list, count, countNumbers(), emitParts()).emit([&](Value item) { return emitFacts(item); });
  gpu::ReturnOp::create(b);
  Value last = entry.addArgument(listType, b.getLoc());
  list.replaceAllUsesWith(last);
  entry.eraseArgument(cast<BlockArgument>(list).getArgNumber());
  finish();
  return success();
}

/// Replaces computations in the program by reads of the list's numbers.
void OrderBuilder::readNumbers() {
  b.setInsertionPointToStart(&program.getBody().front());
  for (auto [number, value] : llvm::enumerate(llvm::concat<Value>(numbers->shared, numbers->own))) {
    Value copy = ListNumberOp::create(b, b.getIndexType(), number);
    // tile-pipeline requires that the loop over keys has at least one iteration. A maximum with a constant shows this,
    // but a number from the list does not. So the maximum is emitted again.
    auto max = value.getDefiningOp<arith::MaxSIOp>();
    if (std::optional<int64_t> least = max ? getConstantIntValue(max.getRhs()) : std::nullopt)
      copy = arith::MaxSIOp::create(b, copy, arith::ConstantIndexOp::create(b, *least));
    value.replaceAllUsesWith(copy);
  }
  IRRewriter rewriter(b);
  (void)runRegionDCE(rewriter, program->getRegions());
}

/// Sets the types of the two kernels, and makes the list a parameter of the program's kernel.
void OrderBuilder::finish() {
  auto setType = [&](gpu::GPUFuncOp function) {
    function.setFunctionType(b.getFunctionType(function.getBody().front().getArgumentTypes(), {}));
  };
  setType(kernel);
  // The list follows the last argument: this kernel has no workgroup attributions, which would follow the parameters.
  Value list = main.getBody().front().addArgument(kernel.getArgumentTypes().back(), program.getLoc());
  setType(main);
  program.getListMutable().assign(list);
  program.setWorkAttr(WorkAttr::get(b.getContext(), Distribution::List, scope, numbers->shared.size(),
                                    numbers->own.size(), program.getWork()->getParts()));
  readNumbers();
}

/// Returns how many of the manifest's parameters stand for one parameter of the kernel: for a memref its pointer and
/// its strides.
static unsigned countParameters(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref ? std::max<int64_t>(memref.getRank(), 1) : 1;
}

/// Whether the list can be part of the mask map. Launches that share a mask map also share the list. So no launch may
/// change the list, but the CTAs of a program without `single` do: they fetch work tiles by a counter in the list. And
/// all these launches must have equal lists, so the order kernel may read only the map, extents and scalars.
bool OrderBuilder::isOfMaskMap(const ManifestKernel &order) {
  using Kind = ManifestParameter::Kind;
  return program.getSingle() && llvm::none_of(order.parameters, [](const ManifestParameter &parameter) {
           return llvm::is_contained({Kind::Workspace, Kind::Pointer, Kind::TensorMap}, parameter.kind);
         });
}

void OrderBuilder::describe(Launch &launch) {
  SmallVector<unsigned> first{0};
  for (Type type : main.getArgumentTypes())
    first.push_back(first.back() + countParameters(type));
  ManifestKernel order;
  order.kernel = kernel.getName();
  order.grid = {1, 1, 1};
  order.block[0] = kOrderThreads;
  for (unsigned number : parameters)
    order.parameters.insert(order.parameters.end(), launch.parameters.begin() + first[number],
                            launch.parameters.begin() + first[number + 1]);
  order.writesMaskMap = launch.maskMap && isOfMaskMap(order);
  std::optional<GridFormula> &place = order.writesMaskMap ? launch.maskMap : launch.workspace;
  ManifestParameter list{order.writesMaskMap ? ManifestParameter::Kind::MaskMap : ManifestParameter::Kind::Workspace};
  list.offset = place; // after the tables of other kernels
  launch.parameters.push_back(list);
  order.parameters.push_back(list);

  GridFormula words = getListItemWords(countNumbers());
  for (unsigned dim : getDims(scope))
    words = words * (*launch.workTiles)[dim];
  // One more word is for the counter, and with parts another one for the number of entries.
  GridFormula bytes = mul64(4, words + (program.getWork()->getParts() > 1 ? 2 : 1));
  place = place ? add64(*place, bytes) : bytes;
  launch.before.push_back(std::move(order));
}

FailureOr<bool> flashc::orderProgram(ProgramOp program) {
  Operation *kernel = program->getParentOp();
  FailureOr<Launch> launch = Launch();
  bool isLaunched = Launch::isOn(kernel);
  if (isLaunched)
    launch = Launch::get(kernel);
  if (failed(launch))
    return failure();
  isLaunched &= launch->workTiles.has_value();
  scf::ForOp loop = findLoopOverKeys(program);
  if (loop) {
    OrderBuilder builder(program, loop);
    if (failed(builder.build()))
      return failure();
    if (isLaunched)
      builder.describe(*launch);
  } else { // each work tile has one tile of keys
    program.removeWorkAttr();
    if (program.getSingle()) {
      program.getGridMutable().clear();
      program.setSingle(false);
    }
    launch->sorted.clear();
  }
  launch->workTiles.reset();
  if (isLaunched)
    launch->set(kernel);
  return loop != nullptr;
}

namespace {
struct Order : flashc::impl::OrderBase<Order> {
  using OrderBase::OrderBase;

  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) {
      if (program.isWork(Distribution::Sorted))
        programs.push_back(program);
    });
    for (ProgramOp program : programs) {
      FailureOr<bool> hasList = orderProgram(program);
      if (failed(hasList))
        return signalPassFailure();
      numLists += *hasList;
    }
  }
};
} // namespace
