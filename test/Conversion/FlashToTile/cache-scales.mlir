// The manifest names the arrays of a cache's scales after the caches.
// RUN: flashc %s --emit=tile | FileCheck %s

// CHECK: {{.*}}name = "q",{{.*}}name = "k",{{.*}}name = "k_scale",{{.*}}name = "v",{{.*}}name = "v_scale",

func.func @decode(%q: tensor<2x8x1x64xbf16>, %kc: tensor<2x2x320x64xi8>, %k_of: tensor<1x2xf32>,
                  %vc: tensor<2x2x320x64xi8>, %v_of: tensor<1x2xf32>, %lengths: tensor<2xi32>) -> tensor<2x8x1x64xbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<2xi32>) scales(%k_of : tensor<1x2xf32>)
      : tensor<2x2x320x64xi8> -> tensor<2x2x320x64xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<2xi32>) scales(%v_of : tensor<1x2xf32>)
      : tensor<2x2x320x64xi8> -> tensor<2x2x320x64xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x8x1x64xbf16>, tensor<2x2x320x64xbf16>, tensor<2x2x320x64xbf16>)
      {scale = 0.125 : f32} -> tensor<2x8x1x64xbf16>, tensor<2x8x1xf32>
  return %o : tensor<2x8x1x64xbf16>
}
