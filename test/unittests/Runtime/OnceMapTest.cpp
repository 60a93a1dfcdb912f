//===- OnceMapTest.cpp - a value is made once, a failure is forgotten ---------------------------------------------===//

#include "flashc/Support/OnceMap.h"
#include "gtest/gtest.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace flashc;
using namespace llvm;

namespace {

constexpr int kThreads = 8;

TEST(OnceMap, MakesAValueOnceForAllThreads) {
  OnceMap<int> map;
  std::atomic<int> made = 0, found = 0, sum = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      bool wasThere;
      Expected<int> value = map.get(
          "key",
          [&]() -> Expected<int> {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ++made;
            return 7;
          },
          &wasThere);
      sum += cantFail(std::move(value));
      found += wasThere;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(found, kThreads - 1);
  EXPECT_EQ(sum, 7 * kThreads);
}

TEST(OnceMap, ThrowsInEveryThreadAndTriesAgain) {
  OnceMap<int> map;
  std::atomic<int> thrown = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      try {
        cantFail(map.get("key", [&]() -> Expected<int> {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          throw std::bad_alloc();
        }));
      } catch (const std::bad_alloc &) {
        ++thrown;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(thrown, kThreads);
  EXPECT_EQ(cantFail(map.get("key", [&]() -> Expected<int> { return 7; })), 7);
}

TEST(OnceMap, TellsEveryThreadOfAFailureAndTriesAgain) {
  OnceMap<int> map;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  auto fail = [&]() -> Expected<int> {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return createStringError(std::make_error_code(std::errc::invalid_argument), "a reason");
  };
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      Expected<int> value = map.get("key", fail);
      if (value)
        return;
      handleAllErrors(value.takeError(), [&](const ErrorInfoBase &error) {
        failed += error.message() == "a reason" && error.convertToErrorCode() == std::errc::invalid_argument;
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failed, kThreads);
  EXPECT_EQ(cantFail(map.get("key", []() -> Expected<int> { return 1; })), 1);
}

TEST(OnceMap, LetsOneValueBeMadeOfAnother) {
  OnceMap<int> map;
  auto inner = []() -> Expected<int> { return 2; };
  auto outer = [&]() -> Expected<int> { return 1 + cantFail(map.get("inner", inner)); };
  EXPECT_EQ(cantFail(map.get("outer", outer)), 3);
}

} // namespace
