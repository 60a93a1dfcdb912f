//===- MaskBounds.cpp - which tiles a mask keeps ------------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"
#include "MaskProjection.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// From conjunctions to intervals
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Turns conjunctions into intervals of tiles.
class BoundsBuilder {
public:
  BoundsBuilder(MaskSet &mask, const MaskLoop &loop, MLIRContext *context)
      : mask(mask), space(mask.space), loop(loop), context(context), begin(symbol(LoopBounds::Begin)) {
    bounds.view = loop.view;
    bounds.tileSize = loop.tileSize;
    bounds.isMoved = loop.isMoved;
    collectFacts();
  }

  LoopBounds build() {
    std::vector<MaskProjection> kept = project(mask.kept), cut = project(mask.cut);
    if (!isSimple(kept, cut)) {
      prune(kept);
      prune(cut);
    }
    for (const MaskProjection &part : kept)
      bounds.kept.push_back(makeInterval(part, /*isCut=*/false));
    for (const MaskProjection &part : cut)
      bounds.cut.push_back(makeInterval(part, /*isCut=*/true));
    return std::move(bounds);
  }

  bool mayMoveTiles() {
    std::vector<MaskProjection> kept = project(mask.kept);
    if (kept.size() != 1 || !isSimple(kept, project(mask.cut)))
      return false;
    ArrayRef<MaskExpr> rows = kept.front().bounds;
    return llvm::any_of(rows, [&](const MaskExpr &row) { return beginsAnywhere(row); }) &&
           llvm::none_of(rows, [&](const MaskExpr &row) { return endsWithTile(row); });
  }

private:
  /// Whether there is at most one interval with cuts at its ends, as for most masks. Then no proofs are needed, which
  /// saves compile time.
  static bool isSimple(ArrayRef<MaskProjection> kept, ArrayRef<MaskProjection> cut) {
    return kept.size() <= 1 && llvm::all_of(cut, [](const MaskProjection &part) {
             return part.bounds.size() + part.conditions.size() <= 1;
           });
  }

  AffineExpr symbol(unsigned position) const { return getAffineSymbolExpr(position, context); }
  static MaskExpr variable(unsigned index) { return MaskExpr::variable(index); }

  //===------------------------------------------------------------------------------------------------------------===//
  // Facts that hold where the loop runs
  //===------------------------------------------------------------------------------------------------------------===//

  MaskExpr read(const LinearExpr &expr) {
    MaskExpr result(expr.getConstant());
    for (const LinearExpr::Term &term : expr.getTerms())
      result += MaskExpr::variable(space.getSymbol(term.value), term.coefficient);
    return result;
  }

  void assumeNatural(const MaskExpr &expr) {
    if (!expr.isLarge())
      bounds.facts.push_back(expr);
  }

  void assumeEqual(const MaskExpr &a, const MaskExpr &b) {
    assumeNatural(a - b);
    assumeNatural(b - a);
  }

  void collectFacts() {
    MaskExpr first = variable(MaskSpace::First), count = variable(MaskSpace::Count);
    assumeNatural(count - 1);
    assumeNatural(MaskExpr(loop.otherTileSize) - count);
    bounds.begin = loop.begin ? read(*loop.begin) : variable(MaskSpace::Begin);
    bounds.end = loop.end ? read(*loop.end) : variable(MaskSpace::End);
    if (loop.count && loop.count->getConstantValue())
      assumeEqual(count, read(*loop.count));
    if (loop.to)
      assumeNatural(read(*loop.to) - first - count);
    if (loop.from) {
      MaskExpr distance = first - read(*loop.from);
      assumeEqual(distance, space.floorDiv(distance, loop.otherTileSize) * loop.otherTileSize);
      assumeNatural(distance);
    }
    MaskExpr tile = variable(MaskSpace::Tile) - bounds.begin;
    if (!loop.isMoved)
      assumeEqual(tile, space.floorDiv(tile, loop.tileSize) * loop.tileSize);
    assumeNatural(tile);
    assumeNatural(bounds.end - variable(MaskSpace::Tile) - 1);
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Projections
  //===------------------------------------------------------------------------------------------------------------===//

  std::vector<MaskProjection> project(ArrayRef<MaskConjunct> conjuncts) {
    // In the dual view the loop runs over queries. Queries at or after the end do not exist. (In the primal view the
    // loop runs over keys, and the mask itself drops the keys at or after the end.)
    std::optional<MaskExpr> end;
    if (loop.view == MaskView::Dual)
      end = bounds.end;
    std::vector<MaskProjection> parts;
    for (const MaskConjunct &conjunct : conjuncts) {
      parts.push_back(projectOntoTiles(space, conjunct, loop.tileSize, end, bounds.facts));
      if (parts.back().isEmpty)
        parts.pop_back();
    }
    return parts;
  }

  static SmallVector<MaskExpr> getRows(const MaskProjection &part) {
    SmallVector<MaskExpr> rows(part.bounds);
    rows.append(part.conditions);
    return rows;
  }

  /// Drops parts that are empty for every tile, and parts that are subsets of another one.
  void prune(std::vector<MaskProjection> &parts) {
    MaskProver prover(space, bounds.facts);
    llvm::erase_if(parts, [&](const MaskProjection &part) { return prover.isEmpty(getRows(part)); });
    for (size_t n = parts.size(); n-- > 0;) {
      SmallVector<MaskExpr> rows = getRows(parts[n]);
      for (size_t other = 0; other < parts.size(); ++other)
        if (other != n && llvm::all_of(getRows(parts[other]), [&](const MaskExpr &row) {
              return llvm::is_contained(rows, row) || prover.implies(rows, row);
            })) {
          parts.erase(parts.begin() + n);
          break;
        }
    }
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Where tiles begin
  //===------------------------------------------------------------------------------------------------------------===//

  /// Whether an expression is a multiple of the tile size for all values of its variables.
  bool isMultiple(const MaskExpr &expr) const {
    return expr.getConstant() % loop.tileSize == 0 && expr.getDivisor() % loop.tileSize == 0;
  }

  /// Whether `row`, a bound of the kept interval, is a begin that may be at any position (condition 2 of mayMoveTiles).
  bool beginsAnywhere(const MaskExpr &row) const {
    if (row[MaskSpace::Tile] != 1)
      return false;
    MaskExpr position = MaskExpr(loop.tileSize - 1) - row.without(MaskSpace::Tile);
    return !position.isConstant() && position[MaskSpace::First] == 0 && position[MaskSpace::Count] == 0 &&
           !isMultiple(position - bounds.begin);
  }

  /// Whether `row`, a bound of the kept interval, is an end that is a multiple of the tile size. This assumes that the
  /// other direction's tile is whole, and begins at `from` plus a multiple of its size.
  bool endsWithTile(const MaskExpr &row) {
    if (row[MaskSpace::Tile] != -1 || !loop.from)
      return false;
    MaskExpr end = row.without(MaskSpace::Tile) + 1 - bounds.begin, first = variable(MaskSpace::First);
    if (end[MaskSpace::First] != 1 || end[MaskSpace::Count] != 1 || loop.otherTileSize % loop.tileSize != 0)
      return false;
    return isMultiple(end - first - variable(MaskSpace::Count) + read(*loop.from));
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Expressions
  //===------------------------------------------------------------------------------------------------------------===//

  TileInterval makeInterval(const MaskProjection &part, bool isCut) {
    TileInterval interval;
    interval.isExact = part.isExact;
    interval.mayHaveGaps = part.mayHaveGaps;
    interval.isEverything = !mask.opaque.empty() && isEverything(part);
    for (const MaskExpr &row : part.bounds) {
      int64_t factor = row[MaskSpace::Tile];
      MaskExpr rest = row.without(MaskSpace::Tile);
      if (factor > 0) { // the tile's last position is >= limit / factor
        MaskExpr limit = MaskExpr(factor * (loop.tileSize - 1)) - rest;
        AffineExpr position = isCut ? makeExpr(limit - 1).floorDiv(factor) + 1 : makeExpr(limit).ceilDiv(factor);
        interval.begin.push_back(loop.isMoved ? position : tileFloor(position));
        if (!loop.isMoved)
          interval.beginTiles.push_back(space.floorDiv(space.ceilDiv(limit, factor) - bounds.begin, loop.tileSize));
      } else { // the tile's first position is <= rest / factor
        factor = -factor;
        AffineExpr position = isCut ? makeExpr(rest + 1).ceilDiv(factor) : makeExpr(rest).floorDiv(factor) + 1;
        interval.end.push_back(loop.isMoved ? position : tileCeil(position));
        if (!loop.isMoved)
          interval.endTiles.push_back(space.ceilDiv(space.floorDiv(rest, factor) + 1 - bounds.begin, loop.tileSize));
      }
    }
    for (const MaskExpr &condition : part.conditions)
      (isRoom(condition, part) ? interval.rooms : interval.conditions).push_back(makeExpr(condition));
    interval.conditionExprs = part.conditions;
    return interval;
  }

  /// Whether the loop's own bounds imply the bounds of `part`. An example is `j < Nk`, which `flash-tile` adds to a
  /// mask.
  bool isEverything(const MaskProjection &part) const {
    MaskProver prover(space, bounds.facts);
    return llvm::all_of(getRows(part), [&](const MaskExpr &row) { return prover.isNatural(row); });
  }

  /// Whether a condition of `part` limits the distance between a lower and an upper bound of the tiles
  /// (TileInterval::rooms).
  bool isRoom(const MaskExpr &condition, const MaskProjection &part) const {
    return llvm::any_of(part.bounds, [&](const MaskExpr &low) {
      return low[MaskSpace::Tile] == 1 && llvm::any_of(part.bounds, [&](const MaskExpr &high) {
               return high[MaskSpace::Tile] == -1 && low + high - (loop.tileSize - 1) == condition;
             });
    });
  }

  /// Rounds a position down, or up, to a tile boundary.
  AffineExpr tileFloor(AffineExpr position) const {
    return begin + (position - begin).floorDiv(loop.tileSize) * loop.tileSize;
  }
  AffineExpr tileCeil(AffineExpr position) const {
    return begin + (position - begin).ceilDiv(loop.tileSize) * loop.tileSize;
  }

  AffineExpr makeExpr(const MaskExpr &expr) {
    int64_t first = expr[MaskSpace::First], count = expr[MaskSpace::Count];
    bool isLast = first == count; // the last position of the tile
    AffineExpr rest = getAffineConstantExpr(expr.getConstant() + (isLast ? first : 0), context);
    for (unsigned index : {MaskSpace::Begin, MaskSpace::End})
      rest = rest + symbol(index == MaskSpace::Begin ? LoopBounds::Begin : LoopBounds::End) * expr[index];
    for (unsigned index = MaskSpace::FirstDynamic; index < expr.size(); ++index)
      if (expr[index] != 0)
        rest = rest + makeVariable(index) * expr[index];
    AffineExpr position = symbol(LoopBounds::First);
    if (isLast)
      return (position + symbol(LoopBounds::Count) - 1) * first + rest;
    return position * first + (count == 0 ? rest : symbol(LoopBounds::Count) * count + rest);
  }

  AffineExpr makeVariable(unsigned index) {
    const MaskSpace::Variable variable = space[index];
    if (variable.isQuotient())
      return makeExpr(variable.dividend).floorDiv(variable.divisor);
    CapturedValue captured{variable.value, variable.at};
    auto *known = llvm::find_if(bounds.captured, [&](const CapturedValue &other) {
      return other.value == captured.value && other.at == captured.at;
    });
    unsigned position = known - bounds.captured.begin();
    if (known == bounds.captured.end())
      bounds.captured.push_back(captured);
    return symbol(LoopBounds::FirstCaptured + position);
  }

  MaskSet &mask;
  MaskSpace &space;
  const MaskLoop &loop;
  MLIRContext *context;
  AffineExpr begin;
  LoopBounds bounds;
};
} // namespace

LoopBounds mlir::flash::computeLoopBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context) {
  return BoundsBuilder(mask, loop, context).build();
}

bool mlir::flash::mayMoveTiles(MaskSet &mask, const MaskLoop &loop, MLIRContext *context) {
  if (mask.kept.size() != 1) // proofs about several conjuncts would take time
    return false;
  MaskLoop moved = loop; // other facts hold with moved tiles, so pruning may leave other bounds
  moved.isMoved = true;
  return BoundsBuilder(mask, moved, context).mayMoveTiles();
}

MaskClass mlir::flash::classify(const MaskSet &mask, const LoopBounds &bounds) {
  auto isEverything = [](const TileInterval &interval) { return interval.isEverything && !interval.isExact; };
  auto isExact = [](const TileInterval &interval) { return interval.isExact; };
  if (!mask.opaque.empty()) {
    bool isOpaque = llvm::any_of(bounds.kept, isEverything) && llvm::any_of(bounds.cut, isEverything);
    SmallVector<std::string> parts;
    for (Operation *op : mask.opaque) {
      std::string part;
      llvm::raw_string_ostream os(part);
      MaskSet::printOpaque(os, op);
      if (!llvm::is_contained(parts, part))
        parts.push_back(std::move(part));
    }
    return {isOpaque ? MaskClass::Opaque : MaskClass::Conservative,
            llvm::join(parts, ", ") + (parts.size() == 1 ? " is not understood" : " are not understood")};
  }
  if (llvm::any_of(bounds.kept, [](const TileInterval &interval) { return interval.mayHaveGaps; }))
    return {MaskClass::Conservative,
            bounds.view == MaskView::Dual
                ? "a query between the queries of two keys may see no key, as in a sequence without keys"
                : "a key between the keys of two queries may be seen by no query, as in a sequence without queries"};
  if (!llvm::all_of(bounds.kept, isExact))
    return {MaskClass::Conservative, "between the bounds there may be tiles without a kept pair"};
  if (!llvm::all_of(bounds.cut, isExact))
    return {MaskClass::Conservative, "between the bounds of masked tiles there may be full tiles"};
  if (std::max(bounds.kept.size(), bounds.cut.size()) > LoopBounds::kMaxIntervals)
    return {MaskClass::Conservative, "many intervals are taken as one"};
  return {MaskClass::Exact, ""};
}

/// Whether the sets of rows together cover every row that satisfies `outside`. A row that is in none of the sets breaks
/// at least one constraint of each set. So the function tries every choice of one broken constraint per set, and checks
/// that the choice contradicts `outside`.
static bool coverAllRows(const MaskProver &prover, ArrayRef<SmallVector<MaskExpr>> sets,
                         SmallVectorImpl<MaskExpr> &outside) {
  if (prover.isEmpty(outside))
    return true;
  if (sets.empty())
    return false;
  return llvm::all_of(sets.front(), [&](const MaskExpr &constraint) {
    outside.push_back(constraint * -1 - 1);
    bool isCovered = coverAllRows(prover, sets.drop_front(), outside);
    outside.pop_back();
    return isCovered;
  });
}

bool mlir::flash::keepsEveryRow(MaskSet &mask, const LoopBounds &bounds) {
  std::vector<SmallVector<MaskExpr>> sets;
  for (const MaskConjunct &conjunct : mask.kept)
    if (SmallVector<MaskExpr> rows; projectOntoRows(mask.space, conjunct, bounds.begin, bounds.end, bounds.facts, rows))
      sets.push_back(std::move(rows));
  MaskExpr row = MaskExpr::variable(MaskSpace::Query), first = MaskExpr::variable(MaskSpace::First);
  SmallVector<MaskExpr> outside{row - first, first + MaskExpr::variable(MaskSpace::Count) - 1 - row};
  return coverAllRows(MaskProver(mask.space, bounds.facts), sets, outside);
}
