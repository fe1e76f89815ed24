// Small files of a store, which other machines and older releases may have written: what a tag and an index mean, who
// holds a lock or an image; and what was answered in a job. The first byte of an input chooses.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/job_answers.hh"
#include "runtime/squash/read/prefetch_list.hh"
#include "runtime/store/names.hh"
#include "runtime/store/store.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

/// In memory, since each input is written there; gone at the end.
class Place {
  public:
    Place() {
        char name[] = "/dev/shm/berth-fuzz-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw SysError("making a store to read");
        path_ = name;
    }
    ~Place() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::string store() const { return path_ + "/store"; }
    void write(const std::string& name, std::string_view content) const {
        std::string file = cat(store(), '/', name);
        sys::make_directories(file.substr(0, file.rfind('/')), 0700);
        Fd out = sys::open_file(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        sys::write_all(out.get(), content, file);
    }

  private:
    std::string path_;
};

void run_tag(const Place& place, const store::Store& store, std::string_view input) {
    plan::Reference tag = plan::parse_reference("registry.example/a/b:c");
    place.write(cat(store::refs_directory(tag), '/', store::tag_file(tag)), input);
    auto record = store.find_tag(tag);
    if (!record) return;
    store.digest_of(tag);
    store.put_tag(tag, *record);
    auto again = store.find_tag(tag);
    must(again && again->digest == record->digest && again->time == record->time, "a tag that is kept is another one");
    must(again->etag == record->etag || again->etag.empty(), "an ETag that is kept is another one");
    must(again->source == record->source || again->source.empty(), "a source that is kept is another one");
}

void run(std::string_view input) {
    static const Place place;
    static const store::Store store = store::Store::open(place.store());
    const Digest digest("sha256:" + std::string(64, 'a'));
    unsigned which = hostile::take_byte(input) % 6;
    hostile::refusing([&] {
        if (which == 0) run_tag(place, store, input);
        if (which == 1) {
            place.write("lists/" + store::image_index_file(digest), input);
            must(!store.image_of(digest), "an image that is not there is found");
        }
        if (which == 2) {
            place.write(cat("pins/", digest.hex(), ".1"), input);
            store.pin_holders(digest);
            store.sweep_pins();
        }
        if (which == 3) {
            place.write("locks/" + digest.hex(), input);
            must(hostile::is_plain_line(store.lock_owner(digest)), "an owner has control characters");
        }
        if (which == 5) {
            squash::PrefetchList list = squash::parse_prefetch_list(input);
            must(list.extents.size() <= squash::prefetch_extents, "a list has too much");
            squash::PrefetchList again = squash::parse_prefetch_list(squash::format_prefetch_list(list));
            must(again.extents == list.extents && again.missing == list.missing, "a list that is kept is another one");
        }
        if (which == 4) {
            must(answer_in(cat(input, "\n", digest, " r/a:c\n"), "r/a:c").has_value(),
                 "an answer that is kept is not found");
        }
    });
}

const hostile::Registration registration("store", run);

}  // namespace
