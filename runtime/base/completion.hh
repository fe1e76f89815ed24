// What a shell offers for the value of an option.
#pragma once

namespace berth {

enum class Completion { nothing, files, variables, containers, environments, jobs };

}  // namespace berth
