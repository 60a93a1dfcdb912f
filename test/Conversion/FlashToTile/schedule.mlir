// The table, overrides, and what does not fit.
// DEFINE: %{tiles} = q-tile=128 kv-tile=128
// DEFINE: %{schedule} =
// DEFINE: %{convert} = flashc-opt %t/d.mlir --flash-online-softmax --flash-tile="%{tiles}" --canonicalize --cse \
// DEFINE:   --flash-swap-loops --flash-parallelize --convert-flash-to-tile=schedule=%{schedule}

// RUN: rm -rf %t && mkdir %t

// RUN: sed -e s/DV/64/g -e s/D/64/g %s > %t/d.mlir
// REDEFINE: %{tiles} = q-tile=192 kv-tile=128
// RUN: %{convert} | FileCheck %s --check-prefix=D64
// D64: dynamic_shared_memory = 208096
// D64-SAME: tensor-sums=true,store=own-slot,wait-after=12
// D64-SAME: #tile.schedule<consumers = 3, producer_registers = 32, consumer_registers = 160, overlap = true, ping_pong = true, epilogue = softmax, wait_after = 12>
// REDEFINE: %{tiles} = q-tile=128 kv-tile=128
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=OTHERTILES
// OTHERTILES: error: expected tiles of 192 queries and 128 keys (schedule consumers=3,kv-tile=128,stages=4,ping-pong=true,persistent=true,q-stages=2,epilogue=softmax,tensor-sums=true,store=own-slot,wait-after=12,max=running,own-keys=false,heads=1,splits=1), got 128 and 128

// Overrides.
// REDEFINE: %{tiles} = q-tile=128 kv-tile=64
// REDEFINE: %{schedule} = consumers=2,kv-tile=64,stages=3,ping-pong=false,persistent=false
// RUN: %{convert} | FileCheck %s --check-prefix=OVERRIDDEN
// OVERRIDDEN: block = [384, 1, 1]
// OVERRIDDEN-SAME: schedule = "consumers=2,kv-tile=64,stages=3,ping-pong=false,persistent=false,q-stages=1,epilogue=plain,tensor-sums=true,store=registers,wait-after=12,max=running,own-keys=false,heads=1,splits=1"
// OVERRIDDEN-SAME: #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = true, ping_pong = false, wait_after = 12>
// REDEFINE: %{schedule} = consumers=1,kv-tile=64
// REDEFINE: %{tiles} = q-tile=64 kv-tile=64
// RUN: %{convert} | FileCheck %s --check-prefix=ONE
// ONE: ping_pong = false
// REDEFINE: %{schedule} = consumers=1,ping-pong=true
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: schedule: expected several consumers to ping-pong, got 1
// Four consumers are 640 threads, which are launched with 96 registers each.
// REDEFINE: %{schedule} = consumers=4,kv-tile=64
// REDEFINE: %{tiles} = q-tile=256 kv-tile=64
// RUN: %{convert} | FileCheck %s --check-prefix=FOUR
// FOUR: block = [640, 1, 1]
// FOUR-SAME: #tile.schedule<consumers = 4, producer_registers = 32, consumer_registers = 112,
// RUN: flashc %t/d.mlir --schedule=%{schedule} | FileCheck %s --check-prefix=FOURREGISTERS
// FOURREGISTERS: .reqntid 640
// FOURREGISTERS-DAG: setmaxnreg.dec.sync.aligned.u32 32;
// FOURREGISTERS-DAG: setmaxnreg.inc.sync.aligned.u32 112;
// REDEFINE: %{tiles} = q-tile=64 kv-tile=64
// REDEFINE: %{schedule} = consumers=5
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=FIVE
// FIVE: error: schedule: expected 1 to 4 consumers, got 5
// REDEFINE: %{schedule} = kv-tile=72
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=STEP
// STEP: error: schedule: expected a kv-tile of 16 to 256 in steps of 16, got 72
// REDEFINE: %{schedule} = stages=0
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=STAGES
// STAGES: error: schedule: expected 1 to 64 stages, got 0
// REDEFINE: %{schedule} = stages=many
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: schedule: expected an integer for 'stages', got 'many'
// REDEFINE: %{schedule} = persistent=1
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: error: schedule: expected false or true for 'persistent', got '1'
// REDEFINE: %{schedule} = stage=2
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: error: schedule: expected warps, consumers, kv-tile, stages, ping-pong, persistent, q-stages, epilogue, tensor-sums, store, wait-after, max, own-keys, heads, splits, chunk, merge, split-gradients or early-statistics, got 'stage'

// REDEFINE: %{schedule} = q-stages=0
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=QSTAGES
// QSTAGES: error: schedule: expected 1 to 64 q-stages, got 0

// A second slot of Q, where there is room for it and a next tile.
// RUN: sed -e s/DV/96/g -e s/D/96/g %s > %t/d.mlir
// REDEFINE: %{tiles} = q-tile=192 kv-tile=96
// REDEFINE: %{schedule} =
// RUN: %{convert} | FileCheck %s --check-prefix=D96
// D96: q-stages=2,epilogue=product,tensor-sums=false,store=q-slot,wait-after=0
// D96: tile.alloc_ring : <2, 64, 96, f16, private true>
// REDEFINE: %{schedule} = stages=3
// RUN: %{convert} | FileCheck %s --check-prefix=NOROOM
// NOROOM: q-stages=1,epilogue=plain
// REDEFINE: %{schedule} = persistent=false
// RUN: %{convert} | FileCheck %s --check-prefix=NONEXT
// NONEXT: q-stages=1,epilogue=plain
// REDEFINE: %{schedule} = persistent=false,epilogue=product
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=EPILOGUE
// EPILOGUE: error: schedule: expected persistent for epilogue=product
// REDEFINE: %{schedule} = tensor-sums=true
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=SUMS
// SUMS: error: schedule: expected a value dimension in steps of 64 for tensor-sums, got 96
// REDEFINE: %{schedule} = wait-after=49
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=WAIT
// WAIT: error: schedule: expected wait-after to be at most half of kv-tile, the 48 exponentials of a thread, got 49
// REDEFINE: %{schedule} = stages=3,q-stages=2
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=QSHARED
// QSHARED: error: schedule: expected at most 232448 bytes of shared memory, got 246976

// RUN: sed -e s/DV/128/g -e s/D/192/g %s > %t/d.mlir
// REDEFINE: %{tiles} = q-tile=128 kv-tile=128
// REDEFINE: %{schedule} =
// RUN: %{convert} | FileCheck %s --check-prefix=D192
// D192: dynamic_shared_memory = 214112
// D192-SAME: #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
// REDEFINE: %{schedule} = stages=3
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: schedule: expected at most 232448 bytes of shared memory, got 296064

// RUN: sed -e s/DV/256/g -e s/D/256/g %s > %t/d.mlir
// REDEFINE: %{tiles} = q-tile=128 kv-tile=80
// REDEFINE: %{schedule} = kv-tile=80
// RUN: %{convert} | FileCheck %s --check-prefix=D256
// D256: dynamic_shared_memory = 230496
// D256-SAME: #tile.schedule<consumers = 2,
// REDEFINE: %{schedule} = kv-tile=128
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=REGISTERS
// REGISTERS: error: schedule: expected tiles that fit 240 registers per consumer thread, got 256 for a kv-tile of 128 and a value dimension of 256

// The schedule that the function carries, in place of the table's; fields that it leaves out have their initial values.
// RUN: sed -e s/DV/64/g -e s/D/64/g -e 's/16> {$/16> attributes {flashc.schedule = {consumers = 1, "kv-tile" = 80, "ping-pong" = false, store = "q-slot"}} {/' %s > %t/d.mlir
// REDEFINE: %{tiles} = q-tile=64 kv-tile=80
// REDEFINE: %{schedule} =
// RUN: %{convert} | FileCheck %s --check-prefix=CARRIED
// CARRIED: schedule = "consumers=1,kv-tile=80,stages=2,ping-pong=false,persistent=true,q-stages=1,epilogue=plain,tensor-sums=false,store=q-slot,
// RUN: sed -i 's/consumers = 1/consumers = "two"/' %t/d.mlir
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=NONUMBER
// NONUMBER: error: schedule: expected an integer for 'consumers', got 'two'
// RUN: sed -i 's/flashc.schedule = {.*}}/flashc.schedule = 1}/' %t/d.mlir
// RUN: not %{convert} 2>&1 | FileCheck %s --check-prefix=NODICTIONARY
// NODICTIONARY: error: expected 'flashc.schedule' to be a dictionary, got 1 : i64

func.func @attention(%q: tensor<2x2x480xDxf16>, %k: tensor<2x2x480xDxf16>, %v: tensor<2x2x480xDVxf16>) -> tensor<2x2x480xDVxf16> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x2x480xDxf16>, tensor<2x2x480xDxf16>, tensor<2x2x480xDVxf16>)
    {scale = 0.125 : f32} -> tensor<2x2x480xDVxf16>, tensor<2x2x480xf32>
  return %o : tensor<2x2x480xDVxf16>
}
