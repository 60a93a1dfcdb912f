//===- OnceMap.h - values that are made once, however many threads ask --------------------------------------------===//
#ifndef FLASHC_SUPPORT_ONCEMAP_H
#define FLASHC_SUPPORT_ONCEMAP_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <future>
#include <mutex>

namespace flashc {

/// Values by key. The first thread that asks for a key makes its value, without holding a lock; others that ask
/// meanwhile wait for it. A failure goes to all of them and is then forgotten, so that a later request tries again.
template <typename T> class OnceMap {
public:
  /// The value of `key`; `make` is called if there is none. `wasThere`, if not null: whether it was not called.
  llvm::Expected<T> get(llvm::StringRef key, llvm::function_ref<llvm::Expected<T>()> make, bool *wasThere = nullptr) {
    std::promise<Outcome> promise;
    std::shared_future<Outcome> future;
    bool isFirst;
    {
      std::lock_guard<std::mutex> lock(mutex);
      auto [entry, isNew] = values.try_emplace(key);
      if (isNew)
        entry->second = promise.get_future().share();
      future = entry->second;
      isFirst = isNew;
    }
    if (wasThere)
      *wasThere = !isFirst;
    if (isFirst) {
      Outcome outcome = toOutcome(make());
      if (!outcome.value) {
        std::lock_guard<std::mutex> lock(mutex);
        values.erase(key);
      }
      promise.set_value(std::move(outcome));
    }
    const Outcome &outcome = future.get();
    if (outcome.value)
      return *outcome.value;
    return llvm::createStringError(outcome.code, outcome.error);
  }

private:
  /// An llvm::Error has one owner; several threads wait for an outcome.
  struct Outcome {
    std::optional<T> value;
    std::string error;
    std::error_code code;
  };
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
