// The ways in which progress is shown: bars on a terminal, lines in a log, JSON for a program. Each is used by one
// thread.
#pragma once
#include <functional>
#include <string>

#include "runtime/pull/progress/progress_json.hh"

namespace berth::pull {

/// Takes a line, without its end.
using Put = std::function<void(const std::string& line)>;

class View {
  public:
    virtual ~View() = default;
    View() = default;
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    virtual void event(const Event& event, const Status& status) = 0;
    virtual void tick(const Status& status) = 0;
    /// Takes away what is not to stay on the screen.
    virtual void end() {}
    /// When the next tick is wanted, in seconds since the beginning.
    double due() const { return due_; }

  protected:
    double due_ = 0;
};

/// Shows nothing.
class NoView : public View {
  public:
    NoView();
    void event(const Event&, const Status&) override {}
    void tick(const Status&) override {}
};

/// A line after a second, so that nobody wonders, and then as seldom as suits a log. What is over within the second
/// leaves none, but for warnings and retries, which are printed at once.
class LineView : public View {
  public:
    explicit LineView(Put put);
    void event(const Event& event, const Status& status) override;
    void tick(const Status& status) override;

  private:
    Put put_;
    std::vector<std::string> notes_;  ///< of the first second
};

class JsonView : public View {
  public:
    /// `put` takes whole lines, with their ends; `head` says what time it is.
    JsonView(Put put, std::function<JsonHead()> head);
    void event(const Event& event, const Status& status) override;
    void tick(const Status& status) override;

  private:
    Put put_;
    std::function<JsonHead()> head_;
};

/// Bars that are drawn over one another. The cursor stays below them in the first column, so that even a kill leaves a
/// terminal that can be used.
class BarView : public View {
  public:
    struct Size {
        unsigned columns, rows;
    };
    /// `put` takes bytes as they are; `size` is asked before each drawing; nothing is drawn while it has no columns.
    BarView(Put put, std::function<Size()> size);
    void event(const Event& event, const Status& status) override;
    void tick(const Status& status) override;
    void end() override;

  private:
    std::string up() const;

    Put put_;
    std::function<Size()> size_;
    size_t drawn_ = 0;  ///< lines
};

}  // namespace berth::pull
