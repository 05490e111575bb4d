#compdef @PROGRAMS@
# Completion of pflow for zsh, written by `pflow completion zsh`.

_pflow() {
    local program=${(Q)words[1]} kind value about line
    local -i width=0 found=1
    local -a plain described shown stems
    local file= folder=
    [[ $program == '~'* ]] && program=${~program}
    for line in "${(@f)$(command "$program" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}"; do
        kind=${line%%$'\t'*} line=${line#*$'\t'}
        value=${line%%$'\t'*} about=${line#*$'\t'}
        case $kind in
            word)
                if [[ -n $about ]]; then
                    described+=("$value") shown+=("$about")
                    (( ${#value} > width )) && width=${#value}
                else
                    plain+=("$value")
                fi ;;
            stem) stems+=("$value") ;;
            file) file=x$value ;;
            folder) folder=x$value ;;
        esac
    done
    local -i at
    for (( at = 1; at <= $#described; at++ )); do
        shown[at]="${(r:width:)described[at]}  -- $shown[at]"
    done
    (( $#described )) && compadd -l -d shown -a described && found=0
    (( $#plain )) && compadd -a plain && found=0
    (( $#stems )) && compadd -S '' -a stems && found=0
    if [[ -n $file ]]; then
        (( $#file > 1 )) && compset -p $(( $#file - 1 ))
        _files && found=0
    elif [[ -n $folder ]]; then
        (( $#folder > 1 )) && compset -p $(( $#folder - 1 ))
        _files -/ && found=0
    fi
    return found
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _pflow "$@"
else
    compdef _pflow @PROGRAMS@
fi
