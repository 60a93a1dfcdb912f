//===- ManifestTest.cpp -------------------------------------------------------------------------------------------===//

#include "flashc/Runtime/Manifest.h"
#include "TestManifest.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

using namespace flashc;
using namespace llvm;

namespace {

TEST(Manifest, ReadsEveryKey) {
  Expected<Manifest> manifest = Manifest::parse(kTestManifest);
  ASSERT_TRUE(bool(manifest)) << toString(manifest.takeError());
  EXPECT_EQ(manifest->kernel, "causal");
  EXPECT_EQ(manifest->target, "sm_90a");
  ASSERT_EQ(manifest->arguments.size(), 3u);
  EXPECT_EQ(ArrayRef<int64_t>(manifest->arguments[0].shape), ArrayRef<int64_t>({-1, 8, -1, 128}));
  EXPECT_FALSE(manifest->arguments[0].isOutput);
  EXPECT_TRUE(manifest->arguments[2].isOutput);
  ASSERT_EQ(manifest->requirements.size(), 2u);
  EXPECT_EQ(manifest->requirements[0].second.getExtent(), std::pair(2u, 0u));
  EXPECT_EQ(manifest->requirements[1].first.getExtent(), std::nullopt);
  ASSERT_EQ(manifest->parameters.size(), 6u);
  EXPECT_EQ(ArrayRef<uint32_t>(manifest->parameters[0].box), ArrayRef<uint32_t>({64, 128, 1, 1}));
  EXPECT_EQ(manifest->parameters[0].swizzle, 128u);
  EXPECT_EQ(manifest->parameters[1].alignment, 16u);
  EXPECT_EQ(manifest->parameters[2].dim, 2u);
  EXPECT_EQ(manifest->parameters[5].kind, ManifestParameter::Kind::Workspace);
  EXPECT_EQ(manifest->block[0], 384u);
  EXPECT_EQ(manifest->cluster[0], 2u);
  EXPECT_EQ(manifest->dynamicSharedMemory, 197632u);
  ASSERT_TRUE(manifest->workspace.has_value());
  EXPECT_EQ(cantFail(manifest->workspace->evaluate({}, 1)), 64);
  EXPECT_TRUE(manifest->before.empty());
}

/// Replaces `from` by `to` in `text`, which is the tests' manifest by default. Returns the error of parsing the result.
std::string parseWith(StringRef from, StringRef to, std::string text = kTestManifest.str()) {
  size_t position = text.find(from.str());
  if (position == std::string::npos)
    return "no such text";
  text.replace(position, from.size(), to.str());
  Expected<Manifest> manifest = Manifest::parse(text);
  return manifest ? "accepted" : toString(manifest.takeError());
}

TEST(Manifest, RefusesAMaskMapThatIsNotThere) {
  std::string workspace = "{\"kind\": \"workspace\"}", map = "{\"kind\": \"mask_map\"}";
  EXPECT_EQ(parseWith(workspace, map), "manifest: parameters[5]: expected a mask map of some bytes, got none");
  std::string before = getTestManifestWithBefore();
  before.insert(before.rfind("\"dynamic_shared_memory\""), "\"writes_mask_map\": true, ");
  Expected<Manifest> manifest = Manifest::parse(before);
  EXPECT_EQ(toString(manifest.takeError()),
            "manifest: before[1]: expected a mask map and a kernel before the entry's to write it");
}

TEST(Manifest, RefusesOtherSchemasAndVersions) {
  EXPECT_EQ(parseWith("flashc.manifest", "other"), "manifest: expected the schema flashc.manifest");
  EXPECT_EQ(parseWith("\"version\": 1", "\"version\": 2"), "accepted");
  EXPECT_EQ(parseWith("\"version\": 1", "\"version\": 6"), "manifest: expected a version from 1 to 5, got 6");
  EXPECT_EQ(parseWith("\"version\": 1,", ""), "manifest: expected a version from 1 to 5, got none");
}

TEST(Manifest, NamesTheKeyThatIsWrong) {
  EXPECT_EQ(parseWith("\"kernel\": \"causal\",", ""), "missing value at manifest.kernel");
  EXPECT_EQ(parseWith("\"role\": \"output\"", "\"role\": \"inout\""),
            "expected input or output at manifest.arguments[2].role");
  EXPECT_EQ(parseWith("bf16", "q4"), "unknown element type at manifest.arguments[0].dtype");
  EXPECT_EQ(parseWith("\"kind\": \"pointer\"", "\"kind\": \"texture\""),
            "unknown parameter kind at manifest.parameters[1].kind");
  EXPECT_EQ(parseWith("\"swizzle\": 128", "\"swizzle\": 100"),
            "expected 0, 32, 64 or 128 at manifest.parameters[0].swizzle");
  EXPECT_EQ(parseWith("[384, 1, 1]", "[384, 1]"),
            "expected as many integers as there are dimensions at manifest.block");
  EXPECT_EQ(parseWith("[384, 1, 1]", "[384, -1, 1]"), "expected an integer in range at manifest.block[1]");
  EXPECT_EQ(parseWith("ceildiv(", "ceil("),
            "expected a formula at manifest.grid[0]: grid formula 'ceil(arg0.dim2, 128)': expected an integer, "
            "argK.dimN, sm_count, ceildiv, mul, min, add, mul64 or add64, got 'ceil(arg0.dim2, 128)'");
}

TEST(Manifest, RefusesRequirementsThatSayNothing) {
  EXPECT_EQ(parseWith("[\"arg0.dim0\", \"arg2.dim0\"]", "[\"arg0.dim0\"]"),
            "expected two formulas at manifest.requires[0]");
  EXPECT_EQ(parseWith("[\"arg0.dim0\", \"arg2.dim0\"]", "\"arg0.dim0\""),
            "expected two formulas at manifest.requires[0]");
  EXPECT_EQ(
      parseWith("\"arg0.dim0\", \"arg2.dim0\"", "\"arg0.dim0\", \"x\""),
      "expected a formula at manifest.requires[0][1]: grid formula 'x': expected an integer, argK.dimN, sm_count, "
      "ceildiv, mul, min, add, mul64 or add64, got 'x'");
  EXPECT_EQ(parseWith("\"arg0.dim0\", \"arg2.dim0\"", "\"arg0.dim0\", \"arg3.dim0\""),
            "manifest: requires[0]: grid formula: no dimension arg3.dim0");
  EXPECT_EQ(parseWith("\"arg0.dim0\", \"arg2.dim0\"", "2, \"mul(arg0.dim0, 2)\""),
            "manifest: requires[0]: expected one formula to be an extent");
  // Manifests of older compilers lack this key.
  EXPECT_EQ(parseWith("\"requires\"", "\"other\""), "accepted");
}

TEST(Manifest, ForTheCPUHasArgumentsOnly) {
  Expected<Manifest> manifest = Manifest::parse(R"json(
    { "schema": "flashc.manifest", "version": 1, "kernel": "f", "target": "cpu",
      "arguments": [{"name": "q", "role": "input", "shape": [-1], "dtype": "f32"}],
      "requires": [[8, "arg0.dim0"]] })json");
  ASSERT_TRUE(bool(manifest)) << toString(manifest.takeError());
  EXPECT_EQ(manifest->arguments.size(), 1u);
  EXPECT_EQ(manifest->requirements.size(), 1u);
}

TEST(Manifest, RefusesParametersOfNothing) {
  EXPECT_EQ(parseWith("\"scalar\", \"argument\": 1", "\"scalar\", \"argument\": 3"),
            "manifest: parameters[4]: expected an argument below 3, got 3");
  EXPECT_EQ(parseWith("\"argument\": 2, \"dim\": 2", "\"argument\": 2, \"dim\": 4"),
            "manifest: parameters[2]: expected a dimension below 4, got 4");
  EXPECT_EQ(parseWith("[64, 128, 1, 1]", "[64, 128]"),
            "manifest: parameters[0]: expected a box of the argument's rank 4 (1 to 5), got rank 2");
}

TEST(Manifest, ReadsVariants) {
  EXPECT_EQ(cantFail(Manifest::parse(kTestManifest)).getNumEntries(), 1u);
  Expected<Manifest> manifest = Manifest::parse(getTestManifestWithVariants());
  ASSERT_TRUE(bool(manifest)) << toString(manifest.takeError());
  ASSERT_EQ(manifest->getNumEntries(), 3u);
  EXPECT_EQ(manifest->getEntry(0).kernel, "causal_one");
  EXPECT_EQ(manifest->getEntry(1).kernel, "causal_few");
  EXPECT_EQ(manifest->getEntry(1).schedule, "few");
  EXPECT_EQ(manifest->getEntry(1).parameters.size(), 6u);
  EXPECT_EQ(manifest->getEntry(1).dynamicSharedMemory, 65536u);
  EXPECT_EQ(manifest->getEntry(2).kernel, "causal");
  ASSERT_EQ(manifest->variants[0].conditions.size(), 2u);
  EXPECT_EQ(manifest->variants[0].conditions[0].formula.getExtent(), std::pair(0u, 2u));
  EXPECT_EQ(manifest->variants[0].conditions[0].bound, 128);
}

TEST(Manifest, ReadsWhatRunsBefore) {
  Expected<Manifest> manifest = Manifest::parse(getTestManifestWithBefore());
  ASSERT_TRUE(bool(manifest)) << toString(manifest.takeError());
  ASSERT_EQ(manifest->before.size(), 2u);
  EXPECT_EQ(manifest->getNumEntries(), 1u);
  EXPECT_EQ(manifest->before[0].kernel, "causal_one");
  EXPECT_EQ(manifest->before[0].parameters.size(), 6u);
  EXPECT_EQ(manifest->before[1].block[0], 1024u);
  EXPECT_FALSE(manifest->programmaticLaunch);
}

TEST(Manifest, ReadsWhatRunsAfter) {
  Expected<Manifest> manifest = Manifest::parse(getTestManifestWithAfter());
  ASSERT_TRUE(bool(manifest)) << toString(manifest.takeError());
  auto kernels = map_to_vector(manifest->getKernels(), [](const ManifestKernel *info) { return info->kernel; });
  EXPECT_EQ(join(kernels, " "), "causal_one causal causal_few");
  auto parse = [](StringRef from, StringRef to) { return parseWith(from, to, getTestManifestWithAfter()); };
  EXPECT_EQ(parse("\"block\": [1024, 1, 1],", ""), "missing value at manifest.after[0].block");
  EXPECT_EQ(parse("causal_few", "causal_one"),
            "manifest: after[0]: expected a kernel of its own, got causal_one again");
}

// The reader accepts what the writer writes. The writer chooses the lowest version that has all the keys it needs.
TEST(Manifest, WritesWhatItReads) {
  std::string inside = getTestManifestWithBefore();
  inside.replace(inside.find("\"workspace\"}"), 12, "\"workspace\", \"offset\": \"add(8, arg0.dim2)\"}");
  std::pair<std::string, int64_t> cases[] = {{kTestManifest.str(), Manifest::kVersion},
                                             {getTestManifestWithVariants(), Manifest::kVersion},
                                             {getTestManifestWithBefore(), Manifest::kVersionWithBefore},
                                             {inside, Manifest::kVersionWithOffsets},
                                             {getTestManifestWithAfter(), Manifest::kVersionWithAfter}};
  for (const auto &[text, version] : cases) {
    json::Value written = cantFail(Manifest::parse(text)).toJSON();
    EXPECT_EQ(written.getAsObject()->getInteger("version"), version);
    EXPECT_EQ(json::Value(cantFail(Manifest::fromJSON(written)).toJSON()), written);
    json::Value given = cantFail(json::parse(text));
    for (StringRef key : {"kernel", "target", "arguments", "parameters", "block", "cluster", "dynamic_shared_memory"})
      EXPECT_EQ(*written.getAsObject()->get(key), *given.getAsObject()->get(key)) << key.str() << " of " << text;
  }
}

TEST(Manifest, FoldsGrids) {
  std::string text = getTestManifestWithBefore();
  Manifest manifest = cantFail(Manifest::parse(text));
  manifest.addFoldedEntries();
  ASSERT_EQ(manifest.getNumEntries(), 1u);
  const ManifestEntry &folded = manifest.getEntry(1);
  EXPECT_EQ(folded.grid[0].getText(), "mul(mul(ceildiv(arg0.dim2, 128), 8), arg0.dim0)");
  EXPECT_TRUE(isFlat(folded));
  ASSERT_EQ(folded.parameters.size(), 8u);
  EXPECT_EQ(folded.parameters[6].kind, ManifestParameter::Kind::Value);
  EXPECT_EQ(folded.parameters[6].value.getText(), "ceildiv(arg0.dim2, 128)");
  EXPECT_EQ(folded.parameters[7].value.getText(), "8");
  EXPECT_EQ(folded.before[0].parameters.size(), 6u); // this kernel has a grid of one dimension already
  EXPECT_EQ(folded.before[0].grid[0].getText(), manifest.before[0].grid[0].getText());
  EXPECT_EQ(manifest.parameters.size(), 6u);
}

TEST(Manifest, ReadsValues) {
  Manifest manifest = cantFail(Manifest::parse(kTestManifest));
  manifest.foldGrids();
  json::Value written = manifest.toJSON();
  Manifest read = cantFail(Manifest::fromJSON(written));
  EXPECT_EQ(read.parameters[6].value.getText(), "ceildiv(arg0.dim2, 128)");
  EXPECT_EQ(json::Value(read.toJSON()), written);
  StringRef workspace = "{\"kind\": \"workspace\"}";
  EXPECT_EQ(parseWith(workspace, "{\"kind\": \"value\"}"), "missing value at manifest.parameters[5].value");
  EXPECT_EQ(parseWith(workspace, "{\"kind\": \"value\", \"value\": \"x\"}"),
            "expected a formula at manifest.parameters[5].value");
}

TEST(Manifest, ReadsWhetherKernelsOverlap) {
  auto parse = [](StringRef value) {
    std::string text = getTestManifestWithBefore();
    text.replace(text.find("\"before\""), 0, ("\"programmatic_launch\": " + value + ", ").str());
    return Manifest::parse(text);
  };
  EXPECT_TRUE(cantFail(parse("true")).programmaticLaunch);
  EXPECT_FALSE(cantFail(parse("false")).programmaticLaunch);
  EXPECT_EQ(toString(parse("1").takeError()), "expected boolean at manifest.programmatic_launch");
}

TEST(Manifest, RefusesWhatCannotRunBefore) {
  auto parse = [](StringRef from, StringRef to) { return parseWith(from, to, getTestManifestWithBefore()); };
  EXPECT_EQ(parse("\"before\": [", "\"before\": 1, \"others\": ["), "expected array at manifest.before");
  EXPECT_EQ(parse("\"before\": [", "\"before\": [1,"), "expected object at manifest.before[0]");
  EXPECT_EQ(parse("\"kernel\": \"causal_few\",", ""), "missing value at manifest.before[1].kernel");
  EXPECT_EQ(parse("\"block\": [1024, 1, 1],", ""), "missing value at manifest.before[1].block");
  EXPECT_EQ(parse("causal_few", "causal"), "manifest: before[1]: expected a kernel of its own, got causal again");
  EXPECT_EQ(parse("\"workspace\": 64", "\"workspace\": 0"),
            "manifest: parameters[5]: expected a workspace of some bytes, got none");
  EXPECT_EQ(parse("\"workspace\"}", "\"workspace\", \"offset\": \"x\"}"),
            "expected a formula at manifest.parameters[5].offset");
  EXPECT_EQ(parse("\"workspace\": 64", "\"workspace\": \"x\""),
            "expected a formula at manifest.workspace: grid formula 'x': expected an integer, argK.dimN, sm_count, "
            "ceildiv, mul, min, add, mul64 or add64, got 'x'");
  std::string text = getTestManifestWithBefore();
  size_t second = text.find("causal_few");
  std::string tail = text.substr(second);
  tail.replace(tail.find("\"dim\": 2"), 8, "\"dim\": 4");
  EXPECT_EQ(parseWith("causal_few", "causal_few", text.substr(0, second) + tail),
            "manifest: before[1]: parameters[2]: expected a dimension below 4, got 4");
}

TEST(Manifest, TakesConditionsThatDivideByAnExtent) {
  auto parse = [](StringRef from, StringRef to) { return parseWith(from, to, getTestManifestWithVariants()); };
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"ceildiv(arg0.dim2, add(arg0.dim0, 1))\", 256]"), "accepted");
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"ceildiv(arg0.dim2, 0)\", 256]"),
            "manifest: variants[1]: grid formula: division by zero");
}

TEST(Manifest, RefusesVariantsThatAreNone) {
  auto parse = [](StringRef from, StringRef to) { return parseWith(from, to, getTestManifestWithVariants()); };
  EXPECT_EQ(parse("\"variants\": [", "\"variants\": 1, \"others\": ["), "expected array at manifest.variants");
  EXPECT_EQ(parse("\"variants\": [", "\"variants\": [1,"), "expected object at manifest.variants[0]");
  EXPECT_EQ(parse("\"kernel\": \"causal_few\",", ""), "missing value at manifest.variants[1].kernel");
  EXPECT_EQ(parse("\"kernel\": \"causal_few\"", "\"kernel\": \"causal\""),
            "manifest: variants[1]: expected a kernel of its own, got causal again");
  EXPECT_EQ(parse("\"block\": [256, 1, 1],", ""), "missing value at manifest.variants[1].block");
  EXPECT_EQ(parse("\"when\": [[\"arg0.dim2\", 256]],", ""),
            "expected pairs of a formula and an integer at manifest.variants[1].when");
  EXPECT_EQ(parse("[[\"arg0.dim2\", 256]]", "[]"),
            "expected pairs of a formula and an integer at manifest.variants[1].when");
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"arg0.dim2\"]"),
            "expected a formula and an integer at manifest.variants[1].when[0]");
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"arg0.dim2\", \"256\"]"),
            "expected a formula and an integer at manifest.variants[1].when[0]");
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"queries\", 256]"),
            "expected a formula at manifest.variants[1].when[0][0]: grid formula 'queries': expected an integer, "
            "argK.dimN, sm_count, ceildiv, mul, min, add, mul64 or add64, got 'queries'");
  EXPECT_EQ(parse("[\"arg0.dim2\", 256]", "[\"arg1.dim0\", 256]"),
            "manifest: variants[1]: grid formula: no dimension arg1.dim0");
  std::string text = getTestManifestWithVariants();
  size_t second = text.find("causal_few");
  std::string tail = text.substr(second);
  tail.replace(tail.find("\"dim\": 2"), 8, "\"dim\": 4");
  EXPECT_EQ(parseWith("causal_few", "causal_few", text.substr(0, second) + tail),
            "manifest: variants[1]: parameters[2]: expected a dimension below 4, got 4");
}

TEST(Manifest, RefusesBrokenText) {
  EXPECT_TRUE(StringRef(parseWith("{ \"schema\"", "\"schema\"")).starts_with("manifest: ["));
}

} // namespace
