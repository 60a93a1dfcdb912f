//===- OnceMap.h - values that are made once, however many threads ask --------------------------------------------===//
#ifndef FLASHC_SUPPORT_ONCEMAP_H
#define FLASHC_SUPPORT_ONCEMAP_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <future>
#include <mutex>

namespace flashc {

/// A map whose values are made at first use. The first thread that asks for a key makes the key's value, without
/// holding a lock. Other threads that ask for the key meanwhile wait for this value. A failure (also an exception such
/// as std::bad_alloc) goes to all of these threads and is then forgotten, so that a later request tries again.
template <typename T> class OnceMap {
public:
  /// Returns the value of `key`; calls `make` if there is none. If `wasThere` is not null, stores in it whether the
  /// call did not need `make`, because the value was there or another thread was making it.
  llvm::Expected<T> get(llvm::StringRef key, llvm::function_ref<llvm::Expected<T>()> make, bool *wasThere = nullptr) {
    std::promise<Outcome> promise;
    std::shared_future<Outcome> future;
    bool isFirst;
    {
      std::lock_guard<std::mutex> lock(mutex);
      // The entry exists without a future if an allocation failed in an earlier call.
      std::shared_future<Outcome> &entry = values[key];
      isFirst = !entry.valid();
      if (isFirst)
        entry = promise.get_future().share();
      future = entry;
    }
    if (wasThere)
      *wasThere = !isFirst;
    if (isFirst)
      fulfil(promise, key, make);
    const Outcome &outcome = future.get();
    if (outcome.value)
      return *outcome.value;
    return llvm::createStringError(outcome.code, outcome.error);
  }

private:
  /// What `make` returned. It can be copied for every thread that waits; an llvm::Error cannot.
  struct Outcome {
    std::optional<T> value;
    std::string error;
    std::error_code code;
  };
  void fulfil(std::promise<Outcome> &promise, llvm::StringRef key, llvm::function_ref<llvm::Expected<T>()> make) {
    try {
      Outcome outcome = toOutcome(make());
      if (!outcome.value)
        forget(key);
      promise.set_value(std::move(outcome));
    } catch (...) {
      forget(key);
      promise.set_exception(std::current_exception());
    }
  }
  void forget(llvm::StringRef key) {
    std::lock_guard<std::mutex> lock(mutex);
    values.erase(key);
  }
  static Outcome toOutcome(llvm::Expected<T> value) {
    Outcome outcome;
    if (value) {
      outcome.value = std::move(*value);
      return outcome;
    }
    llvm::handleAllErrors(value.takeError(), [&](const llvm::ErrorInfoBase &error) {
      outcome.error = error.message();
      outcome.code = error.convertToErrorCode();
    });
    return outcome;
  }

  std::mutex mutex;
  llvm::StringMap<std::shared_future<Outcome>> values;
};

} // namespace flashc

#endif // FLASHC_SUPPORT_ONCEMAP_H
