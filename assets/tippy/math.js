tippy.setDefaultProps({ // the formula is set when the tip has its place, else its size is unknown
  onMount(tip) { if (window.MathJax && MathJax.typesetPromise) MathJax.typesetPromise([tip.popper]); },
});
