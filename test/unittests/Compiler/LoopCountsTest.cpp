//===- LoopCountsTest.cpp - iterations that are counted in bulk, against one by one -------------------------------===//

#include "flashc/Analysis/Cost.h"
#include "flashc/Analysis/TileMap.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Compiler/Session.h"
#include "flashc/InitAll.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace flashc;

namespace {

class LoopCounts : public testing::Test {
protected:
  LoopCounts() {
    registerAllDialects(registry);
    session.emplace(registry);
  }

  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  std::string drawMask();
  OwningOpRef<ModuleOp> makeLoops(const std::string &mask, int64_t qTile, int64_t kvTile, StringRef algorithm);
  void compare(func::FuncOp function, int64_t queries, int64_t keys, const TileGrid &tile);

  DialectRegistry registry;
  std::optional<Session> session;
  std::mt19937_64 random{20};
};

} // namespace

/// Bounds that move with the query: sums, products, quotients, remainders, the lesser or greater of two, a choice.
std::string LoopCounts::drawMask() {
  const char *forms[] = {"%c = affine.apply affine_map<(i, j) -> (i * {0} + {1} - j * {2})>(%i, %j)",
                         "%c = affine.apply affine_map<(i, j) -> ((i floordiv {2}) * {0} + {1} - j)>(%i, %j)",
                         "%c = affine.apply affine_map<(i, j) -> ((i mod {2}) * {0} + {1} - j)>(%i, %j)",
                         "%c = affine.min affine_map<(i, j) -> (i * {0} - j, j - i + {1}, {1} + {2} - j)>(%i, %j)",
                         "%c = affine.max affine_map<(i, j) -> ({1} - j, i floordiv {2} - j)>(%i, %j)",
                         "%c = affine.max affine_map<(i, j) -> (i - j - {1}, {2} - j * {0})>(%i, %j)"};
  const char *form = forms[draw(0, std::size(forms) - 1)];
  int64_t factor = draw(0, 1) ? 1 : draw(-3, 3), constant = draw(-300, 900), divisor = draw(1, 200);
  std::string text = llvm::formatv(form, factor, constant, divisor).str();
  text += llvm::formatv("\n%least = arith.constant {0} : index\n%far = arith.constant {1} : index\n"
                  "%isFar = arith.cmpi sgt, %i, %far : index\n%bound = arith.select %isFar, %least, %zero : index\n"
                  "%keep = arith.cmpi sge, %c, %bound : index\nflash.yield %keep : i1",
                  draw(-50, 50), draw(0, 800));
  return "%zero = arith.constant 0 : index\n" + text;
}

OwningOpRef<ModuleOp> LoopCounts::makeLoops(const std::string &mask, int64_t qTile, int64_t kvTile,
                                            StringRef algorithm) {
  AttentionSpec spec;
  spec.headDim = spec.valueDim = 8;
  spec.dtype = "f32";
  spec.maskCode = mask;
  CompileOptions options;
  options.pipeline.qTile = qTile;
  options.pipeline.kvTile = kvTile;
  options.pipeline.algorithm = algorithm.str();
  llvm::Expected<std::string> text = printAttention(spec);
  FailureOr<OwningOpRef<ModuleOp>> module = session->parse(cantFail(std::move(text)));
  FailureOr<std::string> loops = failed(module) ? FailureOr<std::string>(failure())
                                                : printAtLevel(**module, Level::Loops, options);
  FailureOr<OwningOpRef<ModuleOp>> result = failed(loops) ? FailureOr<OwningOpRef<ModuleOp>>(failure())
                                                          : session->parse(*loops);
  EXPECT_TRUE(succeeded(result)) << toString(session->takeError()) << mask;
  return succeeded(result) ? std::move(*result) : nullptr;
}

void LoopCounts::compare(func::FuncOp function, int64_t queries, int64_t keys, const TileGrid &tile) {
  SmallVector<SmallVector<int64_t, 4>> shapes = {{2, 3, queries, 8}, {2, 3, keys, 8}, {2, 3, keys, 8}};
  std::vector<LaunchArgument> arguments(3);
  for (auto [argument, shape] : llvm::zip(arguments, shapes))
    argument.shape.assign(shape.begin(), shape.end());
  TileGrid grid{2, 3, queries, keys, tile.qTile, tile.kvTile};
  FailureOr<TileMap> map = mapTiles(function, arguments, grid), want = mapTiles(function, arguments, grid, true);
  ASSERT_TRUE(succeeded(map) && succeeded(want)) << toString(session->takeError());
  EXPECT_EQ(map->count(), want->count());
  EXPECT_EQ(map->getTiles(1, 2), want->getTiles(1, 2));
  FailureOr<Cost> cost = countCost(function, shapes), sum = countCost(function, shapes, true);
  ASSERT_TRUE(succeeded(cost) && succeeded(sum)) << toString(session->takeError());
  EXPECT_EQ(cost->otherFlops, sum->otherFlops);
  EXPECT_EQ(cost->bytesRead, sum->bytesRead);
  EXPECT_EQ(cost->bytesWritten, sum->bytesWritten);
}

TEST_F(LoopCounts, AreThoseOfEveryIteration) {
  for (int round = 0; round < 60; ++round) {
    TileGrid tile;
    tile.qTile = draw(0, 1) ? 16 : draw(1, 40);
    tile.kvTile = draw(0, 1) ? 16 : draw(1, 40);
    std::string mask = drawMask();
    SCOPED_TRACE(mask);
    OwningOpRef<ModuleOp> module = makeLoops(mask, tile.qTile, tile.kvTile, round % 10 ? "fa2" : "fa1");
    if (!module)
      continue;
    for (int call = 0; call < 3; ++call)
      compare(module->lookupSymbol<func::FuncOp>("attention"), draw(1, 900), draw(1, 700), tile);
  }
}
