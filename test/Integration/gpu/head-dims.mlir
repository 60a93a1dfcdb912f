// Head dimensions of every row of the schedule table, those that fill no 64-column panel among them, and schedules other
// than the table's. Lengths end inside a tile.
// REQUIRES: gpu
// DEFINE: %{dims} = B=2,Nq=200,Nk=333
// DEFINE: %{check} = flashc %t/d.mlir --run=gpu --check --dims=%{dims}
// RUN: rm -rf %t && mkdir %t
// RUN: sed -e s/xDV/x8/g -e s/xD/x8/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x40/g -e s/xD/x72/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x128/g -e s/xD/x64/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x128/g -e s/xD/x192/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x136/g -e s/xD/x200/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x256/g -e s/xD/x64/g %s > %t/d.mlir && %{check} | FileCheck %s
// RUN: sed -e s/xDV/x256/g -e s/xD/x256/g %s > %t/d.mlir && %{check} --schedule=kv-tile=80 | FileCheck %s

// RUN: sed -e s/xDV/x128/g -e s/xD/x128/g %s > %t/d.mlir
// RUN: %{check} --schedule=ping-pong=false | FileCheck %s
// RUN: %{check} --schedule=consumers=1 | FileCheck %s
// RUN: %{check} --schedule=kv-tile=64,stages=3 | FileCheck %s
// RUN: %{check} --schedule=consumers=3,kv-tile=64,ping-pong=false | FileCheck %s

// CHECK: check @attention: o: {{.*}}: PASS
// CHECK: check @attention: lse: {{.*}}: PASS
func.func @attention(%q: tensor<?x4x?xDxf16>, %k: tensor<?x2x?xDxf16>, %v: tensor<?x2x?xDVxf16>)
    -> (tensor<?x4x?xDVxf16>, tensor<?x4x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x4x?xDxf16>, tensor<?x2x?xDxf16>, tensor<?x2x?xDVxf16>)
    {scale = 0.1 : f32} -> tensor<?x4x?xDVxf16>, tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?xDVxf16>, tensor<?x4x?xf32>
}
