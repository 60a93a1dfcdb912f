//===- TestManifest.h - a manifest for the tests, as the compiler writes it ---------------------------------------===//
#ifndef FLASHC_UNITTESTS_RUNTIME_TESTMANIFEST_H
#define FLASHC_UNITTESTS_RUNTIME_TESTMANIFEST_H

#include "flashc/Runtime/KernelModule.h"

// The parameters of the kernel, one of each kind. (g++ takes no line breaks of a raw string in a macro.)
#define FLASHC_TEST_PARAMETERS                                                                                         \
  R"json("parameters": [)json"                                                                                         \
  R"json(    {"kind": "tensor_map", "argument": 0, "box": [64, 128, 1, 1], "swizzle": 128},)json"                      \
  R"json(    {"kind": "pointer", "argument": 2, "alignment": 16},)json"                                                \
  R"json(    {"kind": "stride", "argument": 2, "dim": 2},)json"                                                        \
  R"json(    {"kind": "extent", "argument": 0, "dim": 2},)json"                                                        \
  R"json(    {"kind": "scalar", "argument": 1},)json"                                                                  \
  R"json(    {"kind": "workspace"}],)json"

inline constexpr llvm::StringLiteral kTestManifest = R"json(
{ "schema": "flashc.manifest", "version": 1, "kernel": "causal", "target": "sm_90a",
  "arguments": [
    {"name": "q", "role": "input", "shape": [-1, 8, -1, 128], "dtype": "bf16"},
    {"name": "slope", "role": "input", "shape": [], "dtype": "f32"},
    {"name": "o", "role": "output", "shape": [-1, 8, -1, 128], "dtype": "bf16"}],
  "requires": [["arg0.dim0", "arg2.dim0"], ["mul(arg0.dim2, 1)", "arg2.dim2"]],)json" FLASHC_TEST_PARAMETERS R"json(
  "grid": ["ceildiv(arg0.dim2, 128)", 8, "arg0.dim0"],
  "block": [384, 1, 1], "cluster": [2, 1, 1],
  "dynamic_shared_memory": 197632, "workspace": 64,
  "schedule": "text", "a key of tomorrow": {} })json";

/// Returns the manifest with two variants: one for up to 128 queries of a single batch, and one for up to 256 queries.
inline std::string getTestManifestWithVariants() {
  llvm::StringRef text = kTestManifest;
  return text.drop_back(text.size() - text.rfind('}')).str() + R"json(, "variants": [
  { "when": [["arg0.dim2", 128], ["arg0.dim0", 1]], "kernel": "causal_one",)json" FLASHC_TEST_PARAMETERS R"json(
    "grid": [1, 8, 1], "block": [128, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 1024, "workspace": 32 },
  { "when": [["arg0.dim2", 256]], "kernel": "causal_few",)json" FLASHC_TEST_PARAMETERS R"json(
    "grid": ["ceildiv(arg0.dim2, 64)", 8, "arg0.dim0"], "block": [256, 1, 1], "cluster": [1, 1, 1],
    "dynamic_shared_memory": 65536, "workspace": "mul(8, arg0.dim0)", "schedule": "few" }] })json";
}

/// Returns the manifest with two kernels that run before the main one: the first has a CTA for each 256 queries, the
/// second a single CTA.
inline std::string getTestManifestWithBefore() {
  llvm::StringRef text = kTestManifest;
  std::string result = text.drop_back(text.size() - text.rfind('}')).str() + R"json(, "before": [
  { "kernel": "causal_one",)json" FLASHC_TEST_PARAMETERS R"json(
    "grid": ["ceildiv(arg0.dim2, 256)", 1, 1], "block": [128, 1, 1], "cluster": [1, 1, 1],
    "dynamic_shared_memory": 65536 },
  { "kernel": "causal_few",)json" FLASHC_TEST_PARAMETERS R"json(
    "grid": [1, 1, 1], "block": [1024, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_memory": 0 }] })json";
  result.replace(result.find("\"version\": 1"), 12, "\"version\": 2");
  return result;
}

/// Returns the manifest of getTestManifestWithBefore, but its second kernel runs after the main one.
inline std::string getTestManifestWithAfter() {
  std::string result = getTestManifestWithBefore();
  size_t place = result.find(",\n  { \"kernel\": \"causal_few\"");
  result.replace(place, 1, "], \"after\": [");
  result.replace(result.find("\"version\": 2"), 12, "\"version\": 4");
  return result;
}

/// Returns the code of an entry.
inline flashc::EntryCode makeCode(std::string text) {
  return [text](size_t) { return text; };
}

/// Returns PTX with these kernels of the manifests, joined as the compiler joins them.
inline std::string getTestPTX(llvm::ArrayRef<llvm::StringRef> kernels = {"causal", "causal_one", "causal_few"}) {
  std::string ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  for (llvm::StringRef name : kernels)
    ptx += ("\n\t// .globl\t" + name + "\n.visible .entry " + name + "(\n.param .align 64 .b8 a[128], .param .u64 b, " +
            ".param .u64 c, .param .u32 d, .param .f32 e, .param .u64 f)\n{\n\tret;\n}\n")
               .str();
  return ptx;
}

#endif // FLASHC_UNITTESTS_RUNTIME_TESTMANIFEST_H
