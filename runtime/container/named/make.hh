// Making a named container without starting it.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/images/opened.hh"
#include "runtime/plan/container.hh"
#include "runtime/request/request.hh"

namespace berth {

/// What is recorded of a container that is made of `opened`, as `request` asks for it. Throws Error.
plan::ContainerRecord record_of(const plan::Request& request, const OpenedImage& opened, const plan::Caller& caller,
                                const plan::Site& site);

/// Makes the container, which must not be there. Of an image file the container has a copy of its own in its folder, so
/// that the file may be removed; blocks are shared where the file system can. Where the site says which files may be
/// images (policy.image_paths and image_owners), the file stays where it is, and is needed. Throws Error.
void make_container(const ContainerFolder& folder, const std::string& name, const plan::Request& request,
                    const OpenedImage& opened, const plan::Caller& caller, const plan::Site& site,
                    const enroot::DataPath& data_path = {});

}  // namespace berth
