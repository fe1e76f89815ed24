// The metadata of a squashfs file: inodes, directories, ids, written after all file data.
#pragma once
#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>

#include "runtime/squash/write/writer_file.hh"
#include "runtime/squash/write/writer_tree.hh"

namespace berth::squash {

/// What the tables are written with; nothing is owned.
struct TableOutput {
    OutputFile& file;
    sqfs_compressor_t* compressor;
    sqfs_frag_table_t* fragments;
    sqfs_xattr_writer_t* xattrs;
    sqfs_super_t& super;
};

/// Appends all tables for `tree` to the file and fills in the superblock, which the caller writes. Numbers the inodes
/// of the tree.
void write_tables(EntryTree& tree, const TableOutput& output);

}  // namespace berth::squash
