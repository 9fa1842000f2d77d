#compdef relay-opt
# Completion of relay-opt in zsh: asks relay-opt itself.
_relay-opt() {
    local kind word asked=$PREFIX last tail kept shown
    local -a found quoted=(-Q)
    # Of a word with an open brace, zsh takes out the brace, and all that is in it before the last
    # comma, and puts both back into what is found.
    last=${${(z)LBUFFER}[-1]}
    tail=${last##*[\{,]}
    if [[ $last == *\{* && ${(Q)PREFIX} == ${last%%\{*}$tail ]]; then
        asked=$last kept=${last%$tail} shown=${last%%\{*} quoted=()
    fi
    {{ask}} -- "${(j: :)words[1,CURRENT-1]} $asked" 2> /dev/null | while read -r kind word; do
        case $kind in
            files) _files ;;
            word) found+=("$shown${word:$#kept}") ;;
        esac
    done
    compadd $quoted -S '' -- $found
}
compdef _relay-opt relay-opt
