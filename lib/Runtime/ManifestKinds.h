//===- ManifestKinds.h - the kinds of a kernel's parameters by their names ----------------------------------------===//

#ifndef FLASHC_RUNTIME_MANIFESTKINDS_H
#define FLASHC_RUNTIME_MANIFESTKINDS_H

#include "flashc/Runtime/Manifest.h"

namespace flashc {
inline constexpr std::pair<ManifestParameter::Kind, llvm::StringLiteral> kManifestKinds[] = {
    {ManifestParameter::Kind::TensorMap, "tensor_map"}, {ManifestParameter::Kind::Pointer, "pointer"},
    {ManifestParameter::Kind::Stride, "stride"},        {ManifestParameter::Kind::Extent, "extent"},
    {ManifestParameter::Kind::Scalar, "scalar"},        {ManifestParameter::Kind::Workspace, "workspace"},
    {ManifestParameter::Kind::MaskMap, "mask_map"},     {ManifestParameter::Kind::Value, "value"}};
} // namespace flashc

#endif
