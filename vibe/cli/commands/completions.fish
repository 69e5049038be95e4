# vibe: completion for fish; load it with: vibe completions fish | source
function __vibe_names
    command vibe completions --names $argv[1] 2>/dev/null
end
function __vibe_words
    set -l given (commandline -opc)
    set -l before $given[-1] (string match -r -- '^--[^=]+(?==)' (commandline -ct))
    set -l line
    for word in $given[2..-1]
        string match -q -- '-*' $word; and break
        set -a line $word
    end
    while true
        switch "$line $before[-1]"
            # VALUES: after an option that takes one
        end
        switch "$line"
            # WORDS: after a command
            case '*'
                set -e line[-1]
                continue
        end
        return
    end
end
function __vibe_offers
    set -l joined (string match -r -- '^--[^=]+=' (commandline -ct))
    if set -q joined[1]
        string join -- \n $joined(__vibe_words)
    else if string match -q -- '-*' (commandline -ct)
        __vibe_words
    else
        __vibe_words | string match -v -- '-*'
    end
end
function __vibe_takes_file
    not __vibe_words | string match -qv -- '-*'
end
complete -c vibe -e
complete -c vibe -f -a '(__vibe_offers)'
complete -c vibe -n __vibe_takes_file -F
