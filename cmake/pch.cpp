// Owns the project's precompiled header; see pch.h.
