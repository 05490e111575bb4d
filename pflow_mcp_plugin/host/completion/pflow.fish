# Completion of pflow for fish, written by `pflow completion fish`.

function __pflow_completion
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l program (string replace -r '^~(?=/)' $HOME -- $words[1])
    set -e words[1]
    for line in (command $program __complete fish $words "$token" 2>/dev/null </dev/null)
        set -l parts (string split -m 2 \t -- $line)
        switch $parts[1]
            case word stem
                printf '%s\t%s\n' $parts[2] $parts[3]
            case file
                for path in (__fish_complete_path $parts[3])
                    printf '%s%s\n' $parts[2] $path
                end
            case folder
                for path in (__fish_complete_directories $parts[3])
                    printf '%s%s\n' $parts[2] $path
                end
        end
    end
end

for program in @PROGRAMS@
    complete -c $program -f -a '(__pflow_completion)'
end
