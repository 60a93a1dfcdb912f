//===- MaskAlgebra.cpp - unions of conjunctions, and piecewise linear values --------------------------------------===//

#include "MaskAlgebra.h"

using namespace mlir;
using namespace mlir::flash;

using Union = MaskAlgebra::Union;
using Piece = MaskAlgebra::Piece;
using Pieces = MaskAlgebra::Pieces;

/// A union with more conjuncts, or a value with more pieces, becomes unknown.
static constexpr size_t kMaxConjuncts = 64, kMaxPieces = 16;

//===--------------------------------------------------------------------------------------------------------------===//
// Unions
//===--------------------------------------------------------------------------------------------------------------===//

Union MaskAlgebra::unknown(Operation *op) {
  op = op ? op : owner;
  if (!llvm::is_contained(set.opaque, op))
    set.opaque.push_back(op);
  MaskConjunct conjunct;
  conjunct.isKnown = false;
  return {conjunct};
}

Union MaskAlgebra::require(const MaskExpr &expr) {
  if (expr.isConstant())
    return expr.getConstant() >= 0 ? everything() : nothing();
  MaskConjunct conjunct;
  conjunct.constraints.push_back(expr);
  return {conjunct};
}

static MaskConjunct merge(const MaskConjunct &a, const MaskConjunct &b) {
  MaskConjunct both = a;
  both.isKnown = a.isKnown && b.isKnown;
  for (const MaskExpr &constraint : b.constraints)
    if (!llvm::is_contained(both.constraints, constraint))
      both.constraints.push_back(constraint);
  return both;
}

Union MaskAlgebra::conjoin(const Union &a, const Union &b) {
  Union result;
  bool isProduct = a.size() > 1 || b.size() > 1;
  if (a.size() * b.size() > 4 * kMaxConjuncts)
    return unknown(nullptr);
  for (const MaskConjunct &x : a)
    for (const MaskConjunct &y : b)
      if (MaskConjunct both = merge(x, y); !isProduct || !isEmpty(both))
        result.push_back(std::move(both));
  return limit(std::move(result));
}

Union MaskAlgebra::disjoin(Union a, const Union &b) {
  a.insert(a.end(), b.begin(), b.end());
  return limit(std::move(a));
}

Union MaskAlgebra::limit(Union all) {
  if (all.size() > kMaxConjuncts)
    all = simplify(std::move(all));
  return all.size() > kMaxConjuncts ? unknown(nullptr) : all;
}

bool MaskAlgebra::isEmpty(const MaskConjunct &conjunct) const {
  return conjunct.constraints.size() > 1 && MaskProver(set.space).isEmpty(conjunct.constraints);
}

bool MaskAlgebra::isSubset(const MaskConjunct &a, const MaskConjunct &b) const {
  return llvm::all_of(b.constraints, [&](const MaskExpr &constraint) {
    return llvm::is_contained(a.constraints, constraint) || MaskProver(set.space).implies(a.constraints, constraint);
  });
}

Union MaskAlgebra::simplify(Union all) const {
  for (size_t n = all.size(); all.size() > 1 && n-- > 0;)
    for (size_t other = 0; other < all.size(); ++other)
      if (other != n && isSubset(all[n], all[other])) {
        all.erase(all.begin() + n);
        break;
      }
  return all;
}

/// Whether every pair of `a` is in `b` or in `c`. This is so if `b` has only one constraint that `a` does not have, `c`
/// has only one such constraint, and at least one of these two constraints holds for any pair.
static bool isCase(const MaskConjunct &a, const MaskConjunct &b, const MaskConjunct &c) {
  const MaskExpr *onlyB = nullptr, *onlyC = nullptr;
  auto find = [&](const MaskConjunct &from, const MaskExpr *&only) {
    for (const MaskExpr &constraint : from.constraints)
      if (!llvm::is_contained(a.constraints, constraint)) {
        if (only)
          return false;
        only = &constraint;
      }
    return only && from.constraints.size() <= a.constraints.size();
  };
  if (!find(b, onlyB) || !find(c, onlyC))
    return false;
  MaskExpr sum = *onlyB + *onlyC;
  return sum.isConstant() && sum.getConstant() >= -1;
}

Union MaskAlgebra::dropCases(Union all) {
  auto isInsideTwo = [&](size_t n) {
    for (size_t first = 0; first < all.size(); ++first)
      for (size_t second = 0; second < first; ++second)
        if (first != n && second != n && isCase(all[n], all[first], all[second]))
          return true;
    return false;
  };
  for (size_t n = all.size(); all.size() > 2 && n-- > 0;)
    if (isInsideTwo(n))
      all.erase(all.begin() + n);
  return all;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Values
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<Pieces> MaskAlgebra::make(const MaskExpr &expr) {
  if (expr.isLarge())
    return std::nullopt;
  return Pieces{{MaskConjunct(), expr}};
}

std::optional<Pieces> MaskAlgebra::limit(Pieces pieces) {
  if (pieces.size() > kMaxPieces)
    return std::nullopt;
  return pieces;
}

std::optional<Pieces> MaskAlgebra::select(const Union &holds, const Pieces &onTrue, const Union &fails,
                                          const Pieces &onFalse) {
  Pieces result;
  for (auto [guards, pieces] : {std::pair(&holds, &onTrue), {&fails, &onFalse}})
    for (const MaskConjunct &guard : *guards)
      for (const Piece &piece : *pieces)
        for (const MaskConjunct &both : conjoin({guard}, {piece.guard}))
          result.push_back({both, piece.value});
  return limit(std::move(result));
}

std::optional<Pieces> MaskAlgebra::combine(const Pieces &a, const Pieces &b,
                                           function_ref<MaskExpr(const MaskExpr &, const MaskExpr &)> compute) {
  Pieces result;
  for (const Piece &x : a)
    for (const Piece &y : b)
      for (MaskConjunct &guard : conjoin({x.guard}, {y.guard})) {
        MaskExpr value = compute(x.value, y.value);
        if (value.isLarge())
          return std::nullopt;
        if (a.size() * b.size() == 1 || !isEmpty(guard))
          result.push_back({std::move(guard), value});
      }
  return limit(std::move(result));
}

std::optional<Pieces> MaskAlgebra::getExtremum(const Pieces &a, const Pieces &b, bool isMin) {
  Pieces result;
  for (const Piece &x : a)
    for (const Piece &y : b) {
      MaskExpr difference = isMin ? y.value - x.value : x.value - y.value;
      for (const MaskConjunct &guard : conjoin({merge(x.guard, y.guard)}, require(difference)))
        result.push_back({guard, x.value});
      for (const MaskConjunct &guard : conjoin({merge(x.guard, y.guard)}, require(difference * -1 - 1)))
        result.push_back({guard, y.value});
    }
  return limit(std::move(result));
}

std::optional<Pieces> MaskAlgebra::getBySign(const Pieces &pieces, function_ref<MaskExpr(const MaskExpr &)> ifNatural,
                                             function_ref<MaskExpr(const MaskExpr &)> ifNegative) {
  Pieces result;
  for (const Piece &piece : pieces) {
    if (set.space.isNatural(piece.value)) {
      result.push_back({piece.guard, ifNatural(piece.value)});
      continue;
    }
    for (const MaskConjunct &guard : conjoin({piece.guard}, require(piece.value)))
      result.push_back({guard, ifNatural(piece.value)});
    for (const MaskConjunct &guard : conjoin({piece.guard}, require(piece.value * -1 - 1)))
      result.push_back({guard, ifNegative(piece.value)});
  }
  return limit(std::move(result));
}
