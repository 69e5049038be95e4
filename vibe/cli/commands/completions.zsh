# vibe: completion for zsh; load it with: source <(vibe completions zsh)
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
autoload -Uz +X bashcompinit && bashcompinit
