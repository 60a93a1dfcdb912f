//===- OldGlibcTest.cpp - what it defines does what glibc's own does ----------------------------------------------===//

#include "gtest/gtest.h"

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <set>
#include <string>

namespace {

#if __GLIBC_PREREQ(2, 36)
TEST(OldGlibc, DrawsDifferentNumbers) {
  std::set<uint32_t> numbers;
  for (int i = 0; i < 100; ++i)
    numbers.insert(arc4random());
  EXPECT_GT(numbers.size(), 90u);
}

TEST(OldGlibc, IsWhatThisProgramCalls) {
  EXPECT_NE(reinterpret_cast<void *>(&arc4random), dlsym(RTLD_DEFAULT, "arc4random"));
}
#endif

#ifdef DLFO_STRUCT_HAS_EH_DBASE
TEST(OldGlibc, FindsTheTablesThatGlibcFinds) {
  auto *find = reinterpret_cast<decltype(&_dl_find_object)>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
  ASSERT_TRUE(find);
  ASSERT_NE(find, &_dl_find_object);
  int onStack = 0;
  void *inProgram = const_cast<char *>(__FILE__);
  for (void *address : {reinterpret_cast<void *>(find), dlsym(RTLD_DEFAULT, "getenv"), inProgram,
                        static_cast<void *>(&onStack), static_cast<void *>(nullptr)}) {
    dl_find_object want = {}, got = {};
    EXPECT_EQ(_dl_find_object(address, &got), find(address, &want));
    EXPECT_EQ(got.dlfo_eh_frame, want.dlfo_eh_frame);
  }
}
#endif

TEST(OldGlibc, UnwindsThroughFrames) {
  struct Thrower {
    static void call(int depth) {
      std::string frame(depth, 'x');
      if (!depth)
        throw 7;
      call(depth - 1);
    }
  };
  EXPECT_THROW(Thrower::call(20), int);
}

} // namespace
