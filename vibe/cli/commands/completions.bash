# vibe: completion for bash; load it with: source <(vibe completions bash)
_vibe_names() {
    command vibe completions --names "$1" 2>/dev/null
}
_vibe() {
    local words="" line="" word="" joined="" current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    # Bash splits --option=value in three words, zsh does not.
    if [[ $current == = && $before == -* ]]; then
        current=""
    elif [[ $before == = && ${COMP_WORDS[COMP_CWORD-2]} == -* ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    elif [[ $current == --*=* ]]; then
        before="${current%%=*}" joined="${current%%=*}=" current="${current#*=}"
    fi
    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
        [[ $word == -* ]] && break
        line="$line $word"
    done
    while :; do
        case "${line# } $before" in
            # VALUES: after an option that takes one
        esac
        case "${line# }" in
            # WORDS: after a command
            *) line="${line% *}"; continue ;;
        esac
        break
    done
    COMPREPLY=($(compgen -P "$joined" -W "$words" -- "$current"))
}
complete -o default -F _vibe vibe
