//===- Compile.cpp - the C API's compilations ---------------------------------------------------------------------===//

#include "Support.h"
#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Schedule/KernelPlan.h"
#include "llvm/Support/Regex.h"

using namespace flashc;
using namespace flashc::capi;

static constexpr llvm::StringLiteral kDTypeNames[] = {"bf16", "f16", "f32", "i1", "i8", "i32", "i64", "f64"};

llvm::Error capi::checkEnumerator(int value, int last, const llvm::Twine &what, llvm::StringRef type) {
  if (value >= 0 && value <= last)
    return llvm::Error::success();
  return llvm::createStringError("expected " + what + " to be an " + type + " from 0 to " + llvm::Twine(last) +
                                 ", got " + llvm::Twine(value));
}

/// Returns the name of an element type. If `dtype` is not one of the enumerators up to `last`, the error says what
/// `what` must be.
static llvm::Expected<std::string> getName(FlashcDType dtype, FlashcDType last, const llvm::Twine &what) {
  if (llvm::Error error = checkEnumerator(dtype, last, what, "FlashcDType"))
    return std::move(error);
  return kDTypeNames[dtype].str();
}

llvm::Expected<std::string> capi::getCacheType(FlashcCacheType type) {
  if (llvm::Error error = checkEnumerator(type, FLASHC_CACHE_INT8, "cache_type", "FlashcCacheType"))
    return std::move(error);
  return llvm::ArrayRef<llvm::StringRef>{"", "f8E4M3FN", "i8"}[type].str();
}

static int64_t convertExtent(int64_t extent) { return extent == FLASHC_ANY ? -1 : extent; }

static llvm::Expected<AttentionSpec::Capture> convert(const FlashcCapture &capture) {
  if (!capture.name || (capture.rank > 0 && !capture.extents))
    return llvm::createStringError("expected captures to have names and extents, got a null pointer");
  llvm::Expected<std::string> dtype =
      getName(capture.dtype, FLASHC_F64, llvm::Twine("the dtype of capture ") + capture.name);
  if (!dtype)
    return dtype.takeError();
  AttentionSpec::Capture result;
  result.name = capture.name;
  result.dtype = *dtype;
  result.isScalar = capture.rank == 0;
  for (int64_t extent : llvm::ArrayRef(capture.extents, capture.rank)) {
    if (extent < 0)
      return llvm::createStringError("expected extents of capture " + result.name +
                                     " to be positive or FLASHC_ANY, got " + llvm::Twine(extent));
    result.shape.push_back(convertExtent(extent));
  }
  return result;
}

/// Converts a description for the C API to an AttentionSpec. The error names the wrong field.
static llvm::Expected<AttentionSpec> convert(const FlashcAttention &attention) {
  AttentionSpec spec;
  spec.isDouble = attention.dtype == FLASHC_F64;
  llvm::Expected<std::string> dtype =
      getName(spec.isDouble ? FLASHC_F32 : attention.dtype, FLASHC_F32, "dtype, if not FLASHC_F64,");
  if (!dtype)
    return dtype.takeError();
  spec.dtype = *dtype;
  spec.headDim = attention.head_dim;
  spec.valueDim = attention.value_dim;
  spec.groupSize = attention.group_size;
  spec.scale = attention.scale;
  if (llvm::Error error = checkEnumerator(attention.mask, FLASHC_MASK_WINDOW, "mask", "FlashcMask"))
    return std::move(error);
  spec.mask = static_cast<AttentionSpec::Mask>(attention.mask);
  spec.windowLeft = attention.window_left;
  spec.windowRight = attention.window_right;
  spec.maskCode = attention.mask_code ? attention.mask_code : "";
  spec.scoreCode = attention.score_code ? attention.score_code : "";
  if (attention.num_captures > 0 && !attention.captures)
    return llvm::createStringError("expected captures, got a null pointer");
  for (const FlashcCapture &capture : llvm::ArrayRef(attention.captures, attention.num_captures)) {
    llvm::Expected<AttentionSpec::Capture> converted = convert(capture);
    if (!converted)
      return converted.takeError();
    spec.captures.push_back(std::move(*converted));
  }
  for (int64_t extent : {attention.batch, attention.key_heads, attention.queries, attention.keys})
    if (extent < 0)
      return llvm::createStringError("expected batch, key_heads, queries and keys to be positive or FLASHC_ANY, got " +
                                     llvm::Twine(extent));
  spec.batch = convertExtent(attention.batch);
  spec.keyHeads = convertExtent(attention.key_heads);
  spec.queries = convertExtent(attention.queries);
  spec.keys = convertExtent(attention.keys);
  spec.logSumExp = !attention.omit_lse;
  if (llvm::Error error =
          checkEnumerator(attention.operation, FLASHC_CAPTURED_GRADIENT, "operation", "FlashcOperation"))
    return std::move(error);
  spec.operation = static_cast<AttentionSpec::Operation>(attention.operation);
  spec.isDeterministic = attention.deterministic;
  spec.hasSinks = attention.sinks;
  spec.dropoutP = attention.dropout_p;
  spec.captured = attention.captured;
  spec.hasCache = attention.cache;
  spec.pageSize = attention.page_size;
  llvm::Expected<std::string> cacheType = getCacheType(attention.cache_type);
  if (!cacheType)
    return cacheType.takeError();
  spec.cacheDType = *cacheType;
  spec.hasPageScales = attention.page_scales, spec.hasHeadScales = attention.head_scales;
  if (llvm::Error error = spec.setOptions(attention.options ? attention.options : ""))
    return std::move(error);
  return spec;
}

/// Whether `code` (operations as text) uses the value `name`.
static bool uses(llvm::StringRef code, llvm::StringRef name) {
  return llvm::Regex(("%" + name + "([^A-Za-z0-9_]|$)").str()).match(code);
}

/// Whether `code` (operations as text) reads a captured array.
static bool readsArrays(llvm::StringRef code, const AttentionSpec &spec) {
  return llvm::any_of(spec.captures, [&](const AttentionSpec::Capture &capture) {
    return !capture.isScalar && uses(code, capture.name);
  });
}

/// Returns a question to the schedule table. The question is about an attention that reads a cache, on a GPU with
/// `multiprocessors` multiprocessors.
static Question makeQuestion(const AttentionSpec &spec, const GPUTarget &target, int64_t multiprocessors) {
  Question question(KernelKind::Forward, target.name, spec.headDim, spec.valueDim);
  question.dtype = spec.dtype;
  question.group = spec.groupSize;
  question.queries = spec.queries;
  if (spec.mask == AttentionSpec::Mask::Window && !AttentionSpec::isUnbounded(spec.windowLeft))
    question.keys = spec.windowLeft + 1 + std::max<int64_t>(spec.windowRight, 0);
  CacheQuestion &cache = question.cache.emplace();
  cache.hasPackedQueries = spec.hasPackedQueries;
  cache.batches = spec.batch, cache.keyHeads = spec.keyHeads, cache.keys = spec.keys;
  cache.isWidened = !spec.cacheDType.empty();
  cache.keyBytes = (spec.headDim + spec.valueDim) * (cache.isWidened ? 1 : 2);
  cache.pageRows = spec.pageSize;
  cache.isMaskedByArrays = readsArrays(spec.maskCode, spec);
  cache.isMaskedByHead = uses(spec.maskCode, "h");
  cache.multiprocessors = multiprocessors;
  return question;
}

llvm::Expected<std::string> capi::print(const FlashcAttention &attention) {
  llvm::Expected<AttentionSpec> spec = convert(attention);
  return spec ? printAttention(*spec) : spec.takeError();
}

FlashcStatus capi::compileInto(FlashcContext handle, std::string text, Author author,
                               const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  KernelRequest request = makeRequest(std::move(text), options, author);
  const std::shared_ptr<Context> &context = unwrap(handle);
  llvm::Expected<std::shared_ptr<const CachedKernel>> kernel = context->kernels.get(request);
  if (!kernel)
    return fail(FLASHC_COMPILE_ERROR, kernel.takeError(), message);
  out->ptr = new KernelHandle{context, std::move(*kernel)};
  return succeed(message);
}

FlashcStatus flashcCompileText(FlashcContext context, const char *text, size_t length,
                               const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      out->ptr = nullptr;
    if (!context.ptr || !text || !out)
      return fail(FLASHC_INVALID_ARGUMENT, "expected a context, a text and a place for the kernel, got a null pointer",
                  message);
    return compileInto(context, std::string(text, length), Author::Caller, options, out, message);
  });
}

FlashcStatus capi::getText(FlashcContext handle, const void *description, llvm::StringRef what,
                           llvm::function_ref<llvm::Expected<std::string>()> print, char **out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      *out = nullptr;
    if (!handle.ptr || !description || !out)
      return fail(FLASHC_INVALID_ARGUMENT,
                  ("expected a context, " + what + " and a place for the text, got a null pointer").str(), message);
    llvm::Expected<std::string> text = print();
    if (!text)
      return fail(FLASHC_INVALID_ARGUMENT, text.takeError(), message);
    // Parsing also runs the op's verifier, which rejects everything else that is wrong.
    Session session(unwrap(handle)->registry, Author::Flashc);
    if (failed(session.parse(*text)))
      return fail(FLASHC_COMPILE_ERROR, session.takeError(), message);
    *out = copyText(*text);
    return succeed(message);
  });
}

FlashcStatus capi::compile(FlashcContext handle, const void *description, llvm::StringRef what,
                           llvm::function_ref<llvm::Expected<std::string>()> print, const FlashcCompileOptions *options,
                           FlashcKernel *out, char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (out)
      out->ptr = nullptr;
    if (!handle.ptr || !description || !out)
      return fail(FLASHC_INVALID_ARGUMENT,
                  ("expected a context, " + what + " and a place for the kernel, got a null pointer").str(), message);
    llvm::Expected<std::string> text = print();
    if (!text)
      return fail(FLASHC_INVALID_ARGUMENT, text.takeError(), message);
    return compileInto(handle, std::move(*text), Author::Flashc, options, out, message);
  });
}

FlashcStatus flashcAttentionGetText(FlashcContext context, const FlashcAttention *attention, char **out,
                                    char **message) {
  return getText(context, attention, "an attention", [&] { return print(*attention); }, out, message);
}

/// Chooses the kernel for an attention and a launch. The error names the wrong field.
static llvm::Expected<KernelPlan> choose(const AttentionSpec &spec, const FlashcCacheLaunch &launch,
                                         const FlashcCompileOptions &options) {
  if (!spec.hasCache || std::min({spec.batch, spec.keyHeads, spec.queries, spec.keys, launch.multiprocessors}) < 1)
    return llvm::createStringError("expected a cache, its batch, key_heads, queries and keys, and multiprocessors");
  if (launch.splits < 0 || (launch.splits > 0 && launch.batch_invariant))
    return llvm::createStringError("expected splits to be positive, or 0, or 0 together with batch_invariant, got " +
                                   llvm::Twine(launch.splits));
  llvm::StringRef name = options.target ? options.target : kDefaultTarget.data();
  const GPUTarget *target = GPUTarget::lookup(name);
  if (!target)
    return llvm::createStringError("expected the target to be one of " + GPUTarget::getNames() + ", got '" + name +
                                   "'");
  llvm::Expected<ScheduleTable> table =
      ScheduleTable::parse(options.schedule_table ? options.schedule_table : "", "schedule table");
  if (!table)
    return table.takeError();
  const ScheduleTable *tables[] = {&*table, &ScheduleTable::getBuiltIn()};
  KernelWish wish{options.schedule ? options.schedule : "", tables};
  wish.isForDevice = true;
  wish.isBatchInvariant = launch.batch_invariant;
  if (launch.splits)
    wish.splits = launch.splits;
  llvm::Expected<KernelPlan> plan = chooseKernel(makeQuestion(spec, *target, launch.multiprocessors), wish);
  return plan ? std::move(plan) : llvm::createStringError("schedule: " + llvm::toString(plan.takeError()));
}

FlashcStatus flashcAttentionChooseKernel(const FlashcAttention *attention, const FlashcCacheLaunch *launch,
                                         const FlashcCompileOptions *options, FlashcKernelKind *kind, char **schedule,
                                         char **message) {
  return guard(message, [&]() -> FlashcStatus {
    if (schedule)
      *schedule = nullptr;
    if (!attention || !launch || !kind || !schedule)
      return fail(FLASHC_INVALID_ARGUMENT,
                  "expected an attention, a launch, and places for the kind and the schedule, got a null pointer",
                  message);
    llvm::Expected<AttentionSpec> spec = convert(*attention);
    if (!spec)
      return fail(FLASHC_INVALID_ARGUMENT, spec.takeError(), message);
    llvm::Expected<KernelPlan> plan = choose(*spec, *launch, options ? *options : FlashcCompileOptions());
    if (!plan)
      return fail(FLASHC_INVALID_ARGUMENT, plan.takeError(), message);
    *kind = plan->kind == KernelKind::Decode ? FLASHC_DECODE_KERNEL : FLASHC_FORWARD_KERNEL;
    *schedule = copyText(plan->overrides);
    return succeed(message);
  });
}

FlashcStatus flashcCompileAttention(FlashcContext context, const FlashcAttention *attention,
                                    const FlashcCompileOptions *options, FlashcKernel *out, char **message) {
  return compile(context, attention, "an attention", [&] { return print(*attention); }, options, out, message);
}
