//===- Hopper.h - facts about sm_90a, each with its source --------------------------------------------------------===//
#ifndef FLASHC_TARGET_HOPPER_H
#define FLASHC_TARGET_HOPPER_H

#include <cstdint>

namespace mlir::tile::hopper {

/// Dynamic shared memory that one CTA may have (CUDA C++ programming guide, table of compute capabilities: 227 KB).
constexpr int64_t kMaxSharedMemory = 232448;
/// 32-bit registers of one SM (same table).
constexpr int64_t kRegistersPerSM = 65536;
/// `setmaxnreg` takes 24 to 256 in steps of 8 (PTX ISA 9.7.20.5).
constexpr int64_t kMinRegisters = 24;
constexpr int64_t kMaxSetRegisters = 256;
/// Four warps issue a wgmma together (PTX ISA 9.7.15).
constexpr int64_t kWarpgroupThreads = 128;
/// The registers that `setmaxnreg` moves about among a CTA's threads: those that it is launched with, which are as many
/// for each of its threads as there can be, in steps of 8 (a warp gets them in units of 256: CUDA C++ programming guide,
/// occupancy). Five warpgroups are launched with 96 each; asking for more than these 61440 waits forever.
constexpr int64_t getRegistersOfCTA(int64_t threads) { return kRegistersPerSM / threads / 8 * 8 * threads; }
/// An mbarrier object (PTX ISA 9.7.13.15.2).
constexpr int64_t kMbarrierBytes = 8;
/// The 128-byte swizzle repeats every 8 rows of 128 bytes: tiles begin at multiples of it (PTX ISA 5.5.4).
constexpr int64_t kSwizzleAlignment = 1024;
/// Columns of a 16-bit panel: one swizzle row of 128 bytes.
constexpr int64_t kPanelCols = 64;
/// The columns of wgmma's B come in steps of eight (PTX ISA 9.7.15.2): the least that can hold a row sum.
constexpr int64_t kSumCols = 8;
/// A panel of ones for one step of depth: 16 rows of 128 bytes.
constexpr int64_t kOnesBytes = 16 * 128;
/// A row of wgmma's A or B for one step of depth, 16 elements: with the 32-byte swizzle rows follow each other (PTX ISA
/// 9.7.15.5.1.2.2).
constexpr int64_t kStepRowBytes = 32;
/// Places for what the producer announces, each of so many numbers and an mbarrier (tile.announce). The ring of Q has
/// fewer slots.
constexpr int64_t kAnnouncements = 4;
constexpr int64_t kAnnouncementWords = 16;
/// Where some of the numbers are for one consumer each.
constexpr int64_t kOwnAnnouncementWords = 32;
constexpr int64_t getAnnouncementBytes(int64_t words) { return kAnnouncements * (kMbarrierBytes + 4 * words); }

} // namespace mlir::tile::hopper

#endif // FLASHC_TARGET_HOPPER_H
