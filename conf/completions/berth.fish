# Completion of berth(1) for fish: commands, options, and the names of images, containers and jobs that are there.

set -g __berth_commands run exec ssh-config ps save rm plan pull mirror import images inspect rmi gc verify sign \
    publish profile login logout environment config devices doctor setup migrate stats report version

# The first column of a listing, without its head; - stands for no name.
function __berth_names
    berth $argv 2>/dev/null | awk 'NR > 1 && $1 != "-" { print $1 }'
end

# The jobs of the caller that run.
function __berth_jobs
    squeue --me --noheader --states=RUNNING --format=%i 2>/dev/null
end

function __berth_command
    set -l words (commandline -opc)
    contains -- "$words[2]" $__berth_commands; and echo $words[2]
end

# The options of the command, one a line, as the program knows them: --json, --job= with a value, --policy=newer missing
# with one of these words, --name=CONTAINERS with one of these.
function __berth_list
    set -l command (__berth_command)
    test -n "$command"; and berth $command --list-options 2>/dev/null | string match -- '-*'
end

# True behind an option that takes a value.
function __berth_wants_value
    set -l words (commandline -opc)
    __berth_list | string match -q -- "$words[-1]=*"
end

function __berth_values
    set -l words (commandline -opc)
    set -l line (__berth_list | string match -- "$words[-1]=*")[1]
    switch (string replace -- "$words[-1]=" '' $line)
        case CONTAINERS
            __berth_names ps
        case ENVIRONMENTS
            __berth_names environment list
            __fish_complete_path (commandline -ct)
        case JOBS
            __berth_jobs
        case VARIABLES
            set -nx
        case FILES
            __fish_complete_path (commandline -ct)
        case '*'
            string replace -- "$words[-1]=" '' $line | string split ' '
    end
end

function __berth_arguments
    switch (__berth_command)
        case run plan pull import
            __berth_names images
            __fish_complete_path (commandline -ct)
        case inspect rmi sign publish profile
            __berth_names images
        case exec save rm
            __berth_names ps
        case ssh-config
            __berth_jobs
        case environment
            printf '%s\n' list show
            __berth_names environment list
            __fish_complete_path (commandline -ct)
        case config
            printf '%s\n' show check
            __fish_complete_path (commandline -ct)
        case setup
            echo plugstack
        case report
            __fish_complete_path (commandline -ct)
    end
end

complete -c berth -f
complete -c berth -n 'test (count (commandline -opc)) -eq 1' -a '$__berth_commands'
complete -c berth -n 'test (count (commandline -opc)) -gt 1; and __berth_wants_value' -a '(__berth_values)'
complete -c berth -n 'test (count (commandline -opc)) -gt 1; and not __berth_wants_value; \
    and string match -q -- "-*" (commandline -ct)' -a '(__berth_list | string replace -r -- "=.*" ""; echo -- --help)'
complete -c berth -n 'test (count (commandline -opc)) -gt 1; and not __berth_wants_value; \
    and not string match -q -- "-*" (commandline -ct)' -a '(__berth_arguments)'
