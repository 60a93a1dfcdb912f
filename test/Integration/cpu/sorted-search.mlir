// The search of flash.count_le counts what a walk over the array counts, strict or not, and flash.nth is its other half:
// the number of disagreements, for all values from in front of the first element to behind the last, is 0. The count
// itself is not.
// RUN: sed 's/EXTENT/1/g' %s | flashc - --print-results | FileCheck %s --check-prefix=SAME
// RUN: sed 's/EXTENT/2/g' %s | flashc - --print-results | FileCheck %s --check-prefix=SAME
// RUN: sed 's/EXTENT/7/g' %s | flashc - --print-results | FileCheck %s --check-prefix=SAME
// RUN: sed 's/EXTENT/64/g' %s | flashc - --print-results | FileCheck %s --check-prefix=SAME
// RUN: sed 's/EXTENT/65/g' %s | flashc - --print-results | FileCheck %s --check-prefix=SAME
// RUN: sed 's/EXTENT/?/g' %s > %t.mlir
// RUN: flashc %t.mlir --print-results --shape=arg0=1 | FileCheck %s --check-prefix=SAME
// RUN: flashc %t.mlir --print-results --shape=arg0=4 --seed=2 | FileCheck %s --check-prefix=SAME
// RUN: flashc %t.mlir --print-results --shape=arg0=5 --seed=3 | FileCheck %s --check-prefix=SAME
// RUN: flashc %t.mlir --print-results --shape=arg0=130 --seed=4 | FileCheck %s --check-prefix=SAME
// SAME: run @disagreements: result0: i64 = 0{{$}}

func.func @disagreements(%a: tensor<EXTENTxi32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %cm3 = arith.constant -3 : index
  %c76 = arith.constant 76 : index
  %n = tensor.dim %a, %c0 : tensor<EXTENTxi32>
  %s = flash.assume_sorted %a : tensor<EXTENTxi32>
  %total = scf.for %t = %c0 to %c76 step %c1 iter_args(%wrong = %c0) -> index {
    %v = arith.addi %t, %cm3 : index
    %v32 = arith.index_cast %v : index to i32
    %count, %less = scf.for %x = %c0 to %n step %c1 iter_args(%c = %c0, %d = %c0) -> (index, index) {
      %e = tensor.extract %a[%x] : tensor<EXTENTxi32>
      %le = arith.cmpi sle, %e, %v32 : i32
      %le_index = arith.index_castui %le : i1 to index
      %sum = arith.addi %c, %le_index : index
      %lt = arith.cmpi slt, %e, %v32 : i32
      %lt_index = arith.index_castui %lt : i1 to index
      %sum_lt = arith.addi %d, %lt_index : index
      scf.yield %sum, %sum_lt : index, index
    }
    %found = flash.count_le %v in %s : index, tensor<EXTENTxi32>
    %found32 = flash.count_le %v32 in %s : i32, tensor<EXTENTxi32>
    %found_less = flash.count_le %v in %s {strict} : index, tensor<EXTENTxi32>
    %last = flash.nth %count in %s : tensor<EXTENTxi32>
    %before = arith.subi %count, %c1 : index
    %first = flash.nth %before in %s : tensor<EXTENTxi32>
    %0 = arith.cmpi ne, %found, %count : index
    %1 = arith.cmpi ne, %found32, %count : index
    %2 = arith.cmpi sge, %v, %last : index
    %3 = arith.cmpi slt, %v, %first : index
    %4 = arith.cmpi ne, %found_less, %less : index
    %04 = arith.ori %0, %4 : i1
    %01 = arith.ori %04, %1 : i1
    %23 = arith.ori %2, %3 : i1
    %any = arith.ori %01, %23 : i1
    %one = arith.index_castui %any : i1 to index
    %next = arith.addi %wrong, %one : index
    scf.yield %next : index
  }
  return %total : index
}
