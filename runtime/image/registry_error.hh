// The words for what a registry answered instead of an image. Pure.
#pragma once
#include <string>

#include "runtime/image/http.hh"

namespace berth::image {

/// One line for an answer that is no success, naming `what` ("image REF") and the registry, and what to do.
std::string refusal(const HttpAnswer& answer, const std::string& what, const std::string& registry);

/// The first message of the specification's error document, else the start of the body; cut and escaped. Empty for an empty body.
std::string error_detail(const std::string& body);

}  // namespace berth::image
