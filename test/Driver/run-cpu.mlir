// What --run=cpu says, and how its inputs are chosen.
// RUN: flashc %s --run=cpu | FileCheck %s --check-prefix=DEFAULT
// DEFAULT: run @attention: o: 1x1x63x8xbf16{{$}}
// DEFAULT-NEXT: run @attention: lse: 1x1x63xf32{{$}}

// RUN: flashc %s --run=cpu --dims=B=2,Nq=5,Nk=7 | FileCheck %s --check-prefix=DIMS
// DIMS: run @attention: o: 2x1x5x8xbf16{{$}}
// RUN: flashc %s --run=cpu --shape=k=3x1x9x8,arg0=3x1x4x8 | FileCheck %s --check-prefix=SHAPE
// SHAPE: run @attention: o: 3x1x4x8xbf16{{$}}

// --check alone runs on the CPU; the line has the largest error, its bound, and the relative Frobenius error.
// RUN: flashc %s --check | FileCheck %s --check-prefix=CHECK
// CHECK: check @attention: o: max error {{[0-9.]+e[-+][0-9]+}}, bound {{[0-9.]+e[-+][0-9]+}}, relative Frobenius error {{[0-9.]+e[-+][0-9]+}}: PASS
// CHECK-NEXT: check @attention: lse: max error {{.*}}: PASS

// The inputs are a function of the seed: the same twice, others with another seed.
// RUN: flashc %s --print-results --dims=Nq=2,Nk=3 > %t.first
// RUN: flashc %s --print-results --dims=Nq=2,Nk=3 --seed=0 > %t.same
// RUN: flashc %s --print-results --dims=Nq=2,Nk=3 --seed=1 > %t.other
// RUN: cmp %t.first %t.same
// RUN: not cmp %t.first %t.other

// Passes that are named run instead of the algorithm's.
// RUN: flashc %s --check-each-pass --passes='flash-online-softmax{normalize=each-step},cse' | FileCheck %s --check-prefix=PASSES
// PASSES: after flash-online-softmax: @attention: o error {{[^ ]+}} -> {{[^ ]+}} (bound {{[^ ]+}}), lse error {{.*}}, PASS
// PASSES-NEXT: after cse: @attention: o error
// PASSES-NOT: after

func.func @attention(%q: tensor<?x1x?x8xbf16>, %k: tensor<?x1x?x8xbf16>, %v: tensor<?x1x?x8xbf16>)
    -> (tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>)
      {scale = 1.000000e+00 : f32} -> tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
  return %o, %lse : tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
}
