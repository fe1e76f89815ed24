// What is in a SIF file, as the tools of Apptainer print it (siftool). Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/squash/format/sif.hh"

namespace berth::squash {

/// What `siftool header`, `list` and, of one object, `info` print: lines with their ends, text of the file escaped.
std::string sif_header_text(const sif::Header& header);
std::string sif_list_text(const std::vector<sif::Descriptor>& objects);
std::string sif_object_text(const sif::Descriptor& object);

/// Words of these, for other tables: "Def.FILE"; the number of a group, or NONE; "1 (G)" for a link to a group.
std::string type_name(int32_t type);
std::string group_text(uint32_t group);
std::string link_text(uint32_t link);

}  // namespace berth::squash
